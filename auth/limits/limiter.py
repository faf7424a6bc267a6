"""Decides whether a principal may make a request now: by the shared bucket, else by this worker's share."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from redis.exceptions import RedisError

from ..interfaces import LimitStore
from ..model import Decision, Principal, RequestLimit
from .buckets import LocalBuckets


class Limiter:
    """`live_workers` tells how many workers share a limit; `now` is a monotonic clock in seconds.

    While the store is down each worker allows `rate / workers` and `burst / workers` (at least one).
    Its bucket starts full, so that going over may once allow up to a burst more.
    """

    def __init__(
        self,
        buckets: LimitStore,
        *,
        live_workers: Callable[[], int],
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._buckets = buckets
        self._live_workers = live_workers
        self._local = LocalBuckets(now=now)

    def take(self, principal: Principal, *, deadline: float | None = None) -> Awaitable[Decision]:
        """Count one request. The command leaves now; await the result for the decision. Never raises for a
        store that is down, late or refuses: then the decision is this worker's own."""
        # The tenant is the hash tag: all limits of a tenant lie in one slot of a cluster.
        bucket = f"eg:{{t:{principal.tenant}}}:rl:{principal.key_id}"
        return _Take(
            self, self._buckets.take(bucket, principal.limit, deadline=deadline), bucket, principal.limit
        )

    def take_locally(self, bucket: str, limit: RequestLimit) -> Decision:
        workers = max(1, self._live_workers())
        share = RequestLimit(rate_per_s=limit.rate_per_s / workers, burst=max(1, limit.burst // workers))
        return self._local.take(bucket, share, is_local=True)


class _Take(Awaitable[Decision]):
    """A decision under way. No coroutine: one who never awaits it does no harm."""

    __slots__ = ("_bucket", "_limit", "_limiter", "_shared")

    def __init__(
        self, limiter: Limiter, shared: Awaitable[Decision], bucket: str, limit: RequestLimit
    ) -> None:
        self._limiter = limiter
        self._shared = shared
        self._bucket = bucket
        self._limit = limit

    def __await__(self) -> Generator[Any, None, Decision]:
        try:
            return (yield from self._shared.__await__())
        except (OSError, RedisError):
            return self._limiter.take_locally(self._bucket, self._limit)
