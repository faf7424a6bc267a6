"""Keys and limits in memory, for tests of whoever uses auth. They keep what the interfaces promise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from .errors import KeysUnavailable
from .limits.interim import LocalBuckets
from .model import Decision, KeyRecord, RequestLimit


class MemoryKeys:
    """A `KeyStore`. While `is_down`, every call raises `KeysUnavailable`; `gets` counts the look-ups."""

    def __init__(self) -> None:
        self.is_down = False
        self.gets = 0
        self._records: dict[str, KeyRecord] = {}

    async def get(self, key_id: str, *, deadline: float | None = None) -> KeyRecord | None:
        self.gets += 1
        await self._answer()
        return self._records.get(key_id)

    async def put(self, record: KeyRecord) -> None:
        await self._answer()
        known = self._records.get(record.key_id)
        if known is not None and known.revoked_at_s is not None:
            record = replace(record, disabled_at_s=known.revoked_at_s)
        self._records[record.key_id] = record

    async def list(self) -> Sequence[KeyRecord]:
        await self._answer()
        return sorted(self._records.values(), key=lambda record: record.created_at_s, reverse=True)

    async def revoke(self, key_id: str, *, at_s: float) -> KeyRecord | None:
        await self._answer()
        record = self._records.get(key_id)
        if record is not None and record.revoked_at_s is None:
            record = self._records[key_id] = replace(record, disabled_at_s=at_s)
        return record

    async def _answer(self) -> None:
        await asyncio.sleep(0)  # a real store never answers in the same turn of the loop
        if self.is_down:
            raise KeysUnavailable("The store of keys is down.")


class MemoryLimits:
    """A `LimitStore`. While `is_down`, every call raises ConnectionError; `now` is the store's clock."""

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self.is_down = False
        self._buckets = LocalBuckets(now=now)

    def take(
        self, bucket: str, limit: RequestLimit, *, cost: int = 1, deadline: float | None = None
    ) -> Awaitable[Decision]:
        future: asyncio.Future[Decision] = asyncio.get_running_loop().create_future()
        if self.is_down:
            future.set_exception(ConnectionError("The store of limits is down."))
            future.exception()  # seen: a caller who left is no reason to log it
        else:
            future.set_result(self._buckets.take(bucket, limit, cost=cost))
        return future
