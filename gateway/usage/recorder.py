"""Owns what this worker's requests have used: counted at once, written to the durable store in batches, off the path.

What was not written when a worker crashes is lost: at most the last second. A batch that may or may not have been
written is sent again, and counts once.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog
from redis.exceptions import RedisError

from .store import Counts, Tally, UsageStore

_log = structlog.get_logger("gateway.usage.recorder")

_CAPACITY = 10_000  # keys × minutes; reached only while the store is away
_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Batch:
    """Numbered by its sender, so that the store recognises what it has counted already."""

    number: int
    tallies: dict[Tally, Counts]


class UsageRecorder:
    """Open it with `UsageRecorder.open(store)`. `wall` is the clock by which minutes are told apart."""

    def __init__(self, store: UsageStore, *, wall: Callable[[], float] = time.time) -> None:
        self._store = store
        self._wall = wall
        self._sender = secrets.token_hex(6)
        self._number = 0
        self._pending: dict[
            str, dict[Tally, Counts]
        ] = {}  # by tenant, as a tenant's counters lie in one slot
        self._sending: dict[str, Batch] = {}
        self._dropped = 0

    @classmethod
    @asynccontextmanager
    async def open(cls, store: UsageStore, *, every_s: float = 1.0) -> AsyncIterator[UsageRecorder]:
        """Writes every second, and once more at the end."""
        recorder = cls(store)
        writing = asyncio.create_task(recorder._write_on(every_s), name="write usage")
        try:
            yield recorder
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            await recorder.write()

    @property
    def is_behind(self) -> bool:
        """Something was not written yet."""
        return bool(self._pending or self._sending)

    def note(self, *, tenant: str, service: str, key_id: str, counts: Counts) -> None:
        """Add a request. Costs next to nothing, and never fails."""
        tallies = self._pending.setdefault(tenant, {})
        tally = Tally(service, key_id, int(self._wall()) // _MINUTE_S)
        known = tallies.get(tally)
        if known is not None:
            known.add(counts)
        elif sum(map(len, self._pending.values())) < _CAPACITY:  # asked once for a key and minute
            tallies[tally] = counts
        else:
            self._dropped += 1

    async def write(self) -> None:
        """What is pending. What the store does not take is pending still."""
        if self._dropped:
            _log.error("usage is lost: the store has not taken any for too long", requests=self._dropped)
            self._dropped = 0
        for tenant in [tenant for tenant in self._pending if tenant not in self._sending]:
            self._number += 1
            self._sending[tenant] = Batch(self._number, self._pending.pop(tenant))
        for tenant, batch in list(self._sending.items()):
            try:
                await self._store.add(tenant, batch.tallies, sender=self._sender, number=batch.number)
            except (OSError, RedisError):
                return  # all of it is pending still, and goes out with the next round
            del self._sending[tenant]

    async def _write_on(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self.write()
