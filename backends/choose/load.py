"""How busy each member is with requests of this worker."""

from __future__ import annotations

from collections import Counter


class InFlight:
    """Counts of open requests by member name. A request is counted before it is sent."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def __getitem__(self, member: str) -> int:
        return self._counts[member]

    def take(self, member: str) -> Lease:
        """Count one more; the lease gives it back, on every way out."""
        self._counts[member] += 1
        return Lease(self._counts, member)


class Lease:
    def __init__(self, counts: Counter[str], member: str) -> None:
        self._counts = counts
        self._member = member
        self._is_held = True

    def release(self) -> None:
        """Give the count back; once, however often it is called."""
        if self._is_held:
            self._is_held = False
            self._counts[self._member] -= 1
