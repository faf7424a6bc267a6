"""Decides how many tokens a request is likely to use, before anybody has counted them, and what tokens cost."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final, NamedTuple

_BYTES_PER_TOKEN: Final = 3  # a little under what English has, well over what other scripts have
_ASSUMED_OUTPUT: Final = 512  # of a key that has not said much yet
_KEPT, _ENOUGH, _EVERY = 64, 16, 8


class Estimate(NamedTuple):
    input_tokens: int
    output_tokens: int

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


def estimate(
    prompt_bytes: int, *, max_tokens: int | None, usual_output: int | None, model_limit: int | None
) -> Estimate:
    """What to reserve: the prompt's bytes ÷ 3, and the least of what the caller allows, what the key's answers
    usually stay under (None: not known yet) and what the model can say."""
    output = min(
        _ASSUMED_OUTPUT if usual_output is None else usual_output,
        *(bound for bound in (max_tokens, model_limit) if bound is not None),
        1 << 31,
    )
    return Estimate(-(-prompt_bytes // _BYTES_PER_TOKEN), max(0, output))


class UsualOutputs:
    """How long the latest answers to each key were, as this worker has seen them: the 95th percentile of the last
    64. At most `capacity` keys, the least recently used forgotten first."""

    def __init__(self, *, capacity: int = 4_096) -> None:
        self._capacity = capacity
        self._keys: OrderedDict[str, _Outputs] = OrderedDict()

    def __len__(self) -> int:
        return len(self._keys)

    def of(self, key_id: str) -> int | None:
        """None while there are fewer than 16."""
        known = self._keys.get(key_id)
        return None if known is None else known.usual

    def note(self, key_id: str, output_tokens: int) -> None:
        """An answer that a backend gave; hits say nothing about what a backend would have said."""
        known = self._keys.get(key_id)
        if known is None:
            known = self._keys[key_id] = _Outputs()
            if len(self._keys) > self._capacity:
                self._keys.popitem(last=False)
        self._keys.move_to_end(key_id)
        known.note(output_tokens)


class _Outputs:
    __slots__ = ("_latest", "_noted", "usual")

    def __init__(self) -> None:
        self._latest: deque[int] = deque(maxlen=_KEPT)
        self._noted = 0
        self.usual: int | None = None

    def note(self, tokens: int) -> None:
        self._latest.append(tokens)
        self._noted += 1
        if self._noted >= _ENOUGH and self._noted % _EVERY == 0:  # sorted now and then, not each time
            ordered = sorted(self._latest)
            self.usual = ordered[-(-95 * len(ordered) // 100) - 1]


class Prices:
    """What a million input and output tokens of each model cost. A model that is not listed costs nothing."""

    def __init__(self, per_million: Mapping[str, tuple[float, float]]) -> None:
        self._per_million = dict(per_million)

    def cost(self, model: str, *, input_tokens: int, output_tokens: int) -> float:
        price = self._per_million.get(model)
        if price is None:
            return 0.0
        return (price[0] * input_tokens + price[1] * output_tokens) / 1e6
