"""Who just failed to be reached, and is therefore avoided for a moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..model import Member


class Cooldown:
    """Passive and short: a member is tried again after `period_s`, or earlier if nobody else is left."""

    def __init__(self, *, period_s: float, clock: Callable[[], float]) -> None:
        self._period_s = period_s
        self._clock = clock
        self._until_s: dict[str, float] = {}

    def note_failure(self, member: str) -> None:
        self._until_s[member] = self._clock() + self._period_s

    def note_success(self, member: str) -> None:
        self._until_s.pop(member, None)

    def usable(self, members: Sequence[Member]) -> Sequence[Member]:
        """Those not avoided; all of them if that would be none."""
        if not self._until_s:
            return members
        now_s = self._clock()
        return [m for m in members if self._until_s.get(m.name, 0.0) <= now_s] or members
