"""The limiter of requests alone, until the gateway speaks of Limits, Grant and Refusal (see limiter.py)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from typing import Any

from redis.exceptions import RedisError

from ..interfaces import LimitStore, Store
from ..model import Decision, Principal, RequestLimit


class LocalBuckets:
    """At most `capacity` buckets, the least recently used forgotten first (it is likely full by then anyway).

    A bucket is one number: the moment at which it is full again (`now` is a monotonic clock in seconds).
    The script of the shared buckets does the same sums on the store's clock.
    """

    def __init__(self, *, now: Callable[[], float], capacity: int = 10_000) -> None:
        self._now = now
        self._capacity = capacity
        self._full_at_s: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at_s)

    def take(self, bucket: str, limit: RequestLimit, *, cost: int = 1, is_local: bool = False) -> Decision:
        now = self._now()
        empty_s = limit.burst / limit.rate_per_s  # from empty to full
        missing_s = min(max(self._full_at_s.get(bucket, now) - now, 0.0), empty_s)
        wanted_s = missing_s + cost / limit.rate_per_s
        # The millionth of a second allows for rounding: `burst` requests at one moment must all fit.
        is_allowed = wanted_s <= empty_s + 1e-6
        if is_allowed:
            missing_s = wanted_s
            self._full_at_s[bucket] = now + missing_s
            self._full_at_s.move_to_end(bucket)
            if len(self._full_at_s) > self._capacity:
                self._full_at_s.popitem(last=False)
        return Decision(
            is_allowed=is_allowed,
            limit=limit.burst,
            remaining=max(0, int((empty_s - missing_s) * limit.rate_per_s + 1e-6)),
            reset_s=missing_s,
            retry_after_s=0.0 if is_allowed else wanted_s - empty_s,
            is_local=is_local,
        )


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


# A bucket is one number, the moment (µs, the store's clock) at which it is full again; a full bucket is no
# key at all. A refusal writes nothing. The clock may be set back: a bucket is never emptier than empty. There
# is one µs of tolerance, as the moment is kept to a quarter of one.
_TAKE = """
local time = redis.call('TIME')
local now = time[1] * 1e6 + time[2]
local token = 1e6 / ARGV[1]
local empty = ARGV[2] * token
local missing = math.min(math.max((tonumber(redis.call('GET', KEYS[1])) or now) - now, 0), empty)
local wanted = missing + ARGV[3] * token
if wanted > empty + 1 then
  return {0, math.floor((empty - missing) / token), math.ceil(missing), math.ceil(wanted - empty)}
end
redis.call('SET', KEYS[1], string.format('%.2f', now + wanted), 'PX', math.ceil(wanted / 1000))
return {1, math.max(0, math.floor((empty - wanted + 1) / token)), math.ceil(wanted), 0}
"""


class StoreLimits:
    """The `LimitStore` over a Redis-protocol store. `bucket` is the store's key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def take(
        self, bucket: str, limit: RequestLimit, *, cost: int = 1, deadline: float | None = None
    ) -> Awaitable[Decision]:
        reply = self._store.script(
            _TAKE, keys=(bucket,), args=(limit.rate_per_s, limit.burst, cost), deadline=deadline
        )
        return _Taken(reply, limit)


class _Taken(Awaitable[Decision]):
    """The decision of a script that has left already. No coroutine: one who never awaits it does no harm."""

    __slots__ = ("_limit", "_reply")

    def __init__(self, reply: Awaitable[Any], limit: RequestLimit) -> None:
        self._reply = reply
        self._limit = limit

    def __await__(self) -> Generator[Any, None, Decision]:
        is_allowed, remaining, reset_us, retry_us = yield from self._reply.__await__()
        return Decision(
            is_allowed=is_allowed == 1,
            limit=self._limit.burst,
            remaining=remaining,
            reset_s=reset_us / 1e6,
            retry_after_s=retry_us / 1e6,
        )
