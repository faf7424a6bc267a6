"""How much a new or returned member is trusted with: little until it has answered once, then more and more."""

from __future__ import annotations

PERIOD_S = 30.0
_FIRST = 0.1
_UNPROVEN_IN_FLIGHT = 2


class Warmup:
    """A member that was there from the start is warm."""

    __slots__ = ("_is_proven", "_period_s", "_since_s")

    def __init__(self, *, period_s: float = PERIOD_S) -> None:
        self._period_s = period_s
        self._since_s: float | None = None
        self._is_proven = True

    def begin(self, now_s: float) -> None:
        self._since_s = now_s
        self._is_proven = False

    def note_success(self, now_s: float) -> None:
        """The ramp begins with the first real answer: a server may say that it is healthy long before it is warm."""
        if not self._is_proven:
            self._is_proven = True
            self._since_s = now_s

    def factor(self, now_s: float) -> float:
        if self._since_s is None:
            return 1.0
        if not self._is_proven:
            return _FIRST
        share = (now_s - self._since_s) / self._period_s
        if share >= 1:
            self._since_s = None
            return 1.0
        return max(share, _FIRST)

    def may_take(self, in_flight: int) -> bool:
        return self._is_proven or in_flight < _UNPROVEN_IN_FLIGHT
