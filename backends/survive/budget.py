"""How many requests may be sent a second time: a share of all, so that retries do not bury servers in trouble."""

from __future__ import annotations

from ..window import Window

_SPAN_S = 10.0


class RetryBudget:
    """`share` of the requests of the last ten seconds, and `per_s` beside, for when there are few."""

    def __init__(self, *, share: float = 0.2, per_s: float = 3.0) -> None:
        self._share = share
        self._spare = per_s * _SPAN_S
        self._requests = Window(span_s=_SPAN_S, slices=10)
        self._retries = Window(span_s=_SPAN_S, slices=10)

    def note_request(self, now_s: float) -> None:
        self._requests.note(now_s)

    def take(self, now_s: float) -> bool:
        """Whether one more retry fits; if so it is counted."""
        allowed = self._share * self._requests.count(now_s) + self._spare
        if self._retries.count(now_s) + 1 > allowed:
            return False
        self._retries.note(now_s)
        return True
