"""Remembers which entries are due when, roughly, so that those that are can leave without a look at all others."""

from __future__ import annotations

import heapq
from array import array

_TOGETHER_S = 16.0
_LATEST_S = 1e12


class Due:
    """Sixteen bytes an entry. An entry noted twice comes twice: whoever is told looks whether it is really due."""

    def __init__(self) -> None:
        self._order: list[int] = []  # a heap of the keys of:
        self._noted: dict[int, tuple[list[bytes], array[int]]] = {}

    def note(self, space: bytes, entry_id: int, *, expires_at_s: float) -> None:
        key = int(min(expires_at_s, _LATEST_S) // _TOGETHER_S)
        noted = self._noted.get(key)
        if noted is None:
            noted = self._noted[key] = ([], array("q"))
            heapq.heappush(self._order, key)
        noted[0].append(space)
        noted[1].append(entry_id)

    def take(self, now: float, *, most: int) -> list[tuple[bytes, int]]:
        """At most so many of those that are due; each is told within sixteen seconds, unless there are too many."""
        taken: list[tuple[bytes, int]] = []
        while self._order and (self._order[0] + 1) * _TOGETHER_S <= now and len(taken) < most:
            spaces, ids = self._noted[self._order[0]]
            while spaces and len(taken) < most:
                taken.append((spaces.pop(), ids.pop()))
            if not spaces:
                del self._noted[heapq.heappop(self._order)]
        return taken
