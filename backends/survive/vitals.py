"""How well a member does, seen from outside: its time to the first token beside the best one's, and its errors."""

from __future__ import annotations

_SMOOTHING = 0.1
_ERROR_HALF_LIFE_S = 10.0
# First tokens within this many times the best member's are ordinary: pace already tells quick from slow.
_ORDINARY = 3.0
_LEAST = 0.05
_ENOUGH = 5


class Vitals:
    """Moving averages of one member."""

    __slots__ = ("_at_s", "_errors", "_first_token_s", "_samples")

    def __init__(self) -> None:
        self._first_token_s = 0.0
        self._samples = 0
        self._errors = 0.0
        self._at_s = 0.0

    def note_first_token(self, took_s: float) -> None:
        self._samples += 1
        share = max(_SMOOTHING, 1 / self._samples)
        self._first_token_s += share * (took_s - self._first_token_s)

    def note_outcome(self, *, is_error: bool, now_s: float) -> None:
        self._errors = self.errors(now_s)
        self._at_s = now_s
        self._errors += _SMOOTHING * (is_error - self._errors)

    @property
    def first_token_s(self) -> float | None:
        """None while too few were seen to say."""
        return self._first_token_s if self._samples >= _ENOUGH else None

    def errors(self, now_s: float) -> float:
        """The share of failures, 0..1; without news it is forgotten by half every ten seconds."""
        if not self._errors:
            return 0.0
        return float(self._errors * 0.5 ** ((now_s - self._at_s) / _ERROR_HALF_LIFE_S))


def health_factor(*, first_token_s: float | None, best_s: float | None, errors: float) -> float:
    """What a member's weight is multiplied with: 1 in good health, never 0, so that it can show to be well again."""
    factor = 1.0 - errors
    if first_token_s and best_s:
        factor *= min(1.0, _ORDINARY * best_s / first_token_s)
    return max(factor, _LEAST)
