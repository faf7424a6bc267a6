"""How busy a member is: what it said when last asked, and what this worker has sent and seen end since."""

from __future__ import annotations

from collections import deque

from ..model import Signals

# From this share of KV memory on an engine begins to preempt: a request there costs up to three times its own work.
_KV_FULL = 0.8
_KV_COST = 2.0
_CHANGES_KEPT = 4096


class InFlight:
    """This worker's open requests at one member, now and at the moment of the last scrape."""

    __slots__ = ("_changes", "_past", "count")

    def __init__(self) -> None:
        self.count = 0
        self._changes: deque[tuple[float, int]] = deque()
        self._past = 0

    def add(self, now_s: float, change: int) -> None:
        self.count += change
        if len(self._changes) == _CHANGES_KEPT:
            _, self._past = self._changes.popleft()
        self._changes.append((now_s, self.count))

    def at(self, moment_s: float) -> int:
        """How many were open then. What lies before is forgotten: moments must not go back."""
        while self._changes and self._changes[0][0] <= moment_s:
            _, self._past = self._changes.popleft()
        return self._past


def expected_load(*, said: Signals | None, own: int, own_then: int, workers: int) -> float:
    """Requests at the member now, those of other workers included; `said` is its word if that is fresh.

    What the server said counts our own requests of that moment (`own_then`) as well, so only the change since is
    added; the other workers are taken to have sent as many meanwhile. Without its word they are taken to have as many
    open as we.
    """
    if said is None or said.running is None:
        return own * workers
    told = said.running + (said.waiting or 0.0)
    return max(float(own), told + (own - own_then) * workers)


def with_kv_pressure(load: float, kv_usage: float | None) -> float:
    """The load, and what one more request would cost where memory for running ones gets short."""
    if kv_usage is None or kv_usage <= _KV_FULL:
        return load
    return load + (load + 1) * _KV_COST * (min(kv_usage, 1.0) - _KV_FULL) / (1 - _KV_FULL)
