"""Where limits meet the outside world: the store of buckets that all workers share."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Protocol

from .levels import Ask, Buckets, Taken


class LimitStore(Protocol):
    """Buckets on the store's own clock. What costs nothing is never refused, and everything expires.

    Every command leaves when the method is called, not when its result is awaited; a result nobody awaits does
    no harm. All raise OSError when the store cannot answer by the deadline (`time.monotonic()` seconds), and
    `redis.RedisError` when it refuses the command.
    """

    @property
    def lease_s(self) -> float:
        """How long a lease holds after it was taken or renewed."""
        ...

    def take(self, buckets: Buckets, ask: Ask, *, deadline: float | None = None) -> Awaitable[Taken]:
        """Take from all of the buckets or from none.

        More tokens than a bucket can hold count as all it can hold: such a request waits until it is full.
        """
        ...

    def settle(
        self, buckets: Buckets, ask: Ask, *, taken_at_us: float | None, tokens: float, cost: float
    ) -> Awaitable[None]:
        """Put what was used in the place of what was asked, and end the lease. Once for each `take` that took.

        Tokens used beyond what was asked are owed: a bucket may go below empty. Without `taken_at_us` it is not
        known whether anything was taken, and only the lease ends.
        """
        ...

    async def renew(self, leases: Mapping[str, Sequence[str]]) -> None:
        """Hold these leases (by the key of their bucket) for another while, also those that had ended."""
        ...

    def look(self, buckets: Buckets, *, at_s: float, deadline: float | None = None) -> Awaitable[Taken]:
        """How the buckets stand, taking nothing; `at_s` (wall clock) chooses the budgets' period."""
        ...
