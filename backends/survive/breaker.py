"""Whether a member is asked at all: a breaker that opens on failures and closes on a successful trial."""

from __future__ import annotations

from typing import Literal

from ..window import Window

BreakerState = Literal["closed", "open", "half-open"]

_IN_A_ROW = 5
_SHARE, _AMONG, _SPAN_S = 0.5, 10, 10.0
_FIRST_OPEN_S, _LONGEST_OPEN_S = 2.0, 60.0


class Breaker:
    """Of one member. Opens when it could not be reached, after five failures in a row, or when half of at least ten
    requests of the last ten seconds failed; for two seconds, twice as long after each trial that fails.

    When that time is over one request is let through; its end decides. Requests that were under way before it opened
    decide nothing.
    """

    def __init__(self) -> None:
        self.opened_s: float | None = None
        self.openings = 0
        self.is_unreached = (
            False  # opened because the server could not be reached: that is certain, not statistics
        )
        self._until_s = 0.0
        self._open_s = _FIRST_OPEN_S
        self._has_trial = False
        self._in_a_row = 0
        self._all = Window(span_s=_SPAN_S, slices=10)  # amount: failures

    def state(self, now_s: float) -> BreakerState:
        if self.opened_s is None:
            return "closed"
        return "open" if now_s < self._until_s else "half-open"

    def allows(self, now_s: float) -> bool:
        return self.opened_s is None or (now_s >= self._until_s and not self._has_trial)

    def begin(self, now_s: float) -> bool:
        """A request is sent. Whether it is the trial that decides if the breaker closes."""
        is_trial = self.opened_s is not None and self.allows(now_s)
        self._has_trial = self._has_trial or is_trial
        return is_trial

    def note_success(self, *, began_s: float, now_s: float) -> float | None:
        """If this closed it, for how long it had been open."""
        self._all.note(now_s)
        self._in_a_row = 0
        if self.opened_s is None or began_s < self.opened_s:
            return None
        was_open_s = now_s - self.opened_s
        self._close()
        return was_open_s

    def note_failure(self, *, is_trial: bool, is_unreached: bool, now_s: float) -> None:
        self._all.note(now_s, 1.0)
        self._in_a_row += 1
        if self.opened_s is not None:
            if is_trial:
                self._open_s = min(self._open_s * 2, _LONGEST_OPEN_S)
                self._until_s, self._has_trial = now_s + self._open_s, False
                self.is_unreached = is_unreached
        elif is_unreached or self._in_a_row >= _IN_A_ROW or self._is_failing(now_s):
            self.opened_s, self._until_s = now_s, now_s + self._open_s
            self.openings += 1
            self.is_unreached = is_unreached

    def note_no_verdict(self, *, is_trial: bool) -> None:
        """The request ended for reasons of its caller: if it was the trial, another may be."""
        if is_trial:
            self._has_trial = False

    def _is_failing(self, now_s: float) -> bool:
        count = self._all.count(now_s)
        return count >= _AMONG and self._all.amount(now_s) >= _SHARE * count

    def _close(self) -> None:
        self.opened_s = None
        self.is_unreached = self._has_trial = False
        self._open_s = _FIRST_OPEN_S
        self._in_a_row = 0
        self._all.clear()
