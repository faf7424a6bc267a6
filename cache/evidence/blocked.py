"""Owns what was reported wrong, for good: which answer is never given to which question again.

A pair is two of the cache's numbers: a question's id with the id of the entry that answered it, or with the number of
the answer itself where the question's own entry did. Kept in the durable store as one stream, held here whole.
"""

from __future__ import annotations

from collections import OrderedDict

_MOST = 100_000
_NUMBER = 8


class Blocked:
    """Bounded: beyond 100,000 pairs the oldest go."""

    def __init__(self) -> None:
        self._pairs: OrderedDict[tuple[int, int], None] = OrderedDict()
        self._questions: dict[
            int, int
        ] = {}  # with how many pairs: most questions have none, and end the search here

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"Blocked({len(self)} pairs)"

    def add(self, question_id: int, other: int) -> None:
        if (question_id, other) in self._pairs:
            return
        self._pairs[question_id, other] = None
        self._questions[question_id] = self._questions.get(question_id, 0) + 1
        if len(self._pairs) > _MOST:
            (oldest, _), _ = self._pairs.popitem(last=False)
            self._questions[oldest] -= 1
            if not self._questions[oldest]:
                del self._questions[oldest]

    def is_pair(self, question_id: int, other: int) -> bool:
        return (question_id, other) in self._pairs

    def has(self, question_id: int) -> bool:
        """Whether there is any pair with this question."""
        return question_id in self._questions


def encode(question_id: int, other: int) -> bytes:
    return question_id.to_bytes(_NUMBER, "big") + other.to_bytes(_NUMBER, "big")


def decode(data: bytes) -> tuple[int, int] | None:
    if len(data) != 2 * _NUMBER:
        return None
    return int.from_bytes(data[:_NUMBER], "big"), int.from_bytes(data[_NUMBER:], "big")
