"""Owns the shared buckets: one atomic script on the store's own clock takes from a bucket, all or nothing."""

from __future__ import annotations

from collections.abc import Awaitable, Generator
from typing import Any

from ..interfaces import Store
from ..model import Decision, RequestLimit

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
