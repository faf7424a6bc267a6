"""Embeds what is kept by the embedder that is to follow, behind all else, while similar questions go on as before.

Of all processes one does it, under a lease. Whatever it was at when it died, the next one finds what is left: an
entry either has a vector of the new embedder or lacks one. Only who serves with the new embedder lets the old vectors
go, once nothing lacks a new one. A text that the new embedder cannot read keeps its entry for equal questions.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from ..embed import EmbedQueue
from ..entries.next_vectors import NextVectors
from ..entries.scan import answered
from ..errors import EmbedderBusy, EmbedderFailed, StoreUnavailable, UnfitText
from ..identity import SHARDS, fingerprint_tag
from ..interfaces import Store
from .lease import Lease

_LEASE_S = 20.0
_TARGET_S = 600.0  # so long after its last process has gone, an embedder's work is not undone by another's
_EMBED_S = 10.0
_TEXTS_AT_ONCE = 16
_PAUSE_S = 5.0
LEASE, TARGET = "eg:{embedder}:lease", "eg:{embedder}:target"

# KEYS: target. ARGV: fingerprint, TTL in ms. 1 where the target is this one, now and for that long.
_AIM = """
local target = redis.call('GET', KEYS[1])
if target and target ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""

State = Literal["idle", "elsewhere", "embedding", "settling", "done"]


@dataclass(slots=True)
class Reembedded:
    """How far it is, by this process. `left` counts entries not looked at yet; `done`, `unfit` and `settled` are since
    the start. "elsewhere": another process does it, or another embedder is the one to follow."""

    state: State = "idle"
    total: int = 0
    left: int = 0
    done: int = 0
    unfit: int = 0
    settled: int = 0


class Reembedding:
    """`share` is the part of one thread's time that it takes at most. `is_serving`: the embedder serves here already.

    `pending` is a number that changes when there may be something to do, and is 0 where there never was; it is looked
    at every `every_s`.
    """

    def __init__(
        self,
        store: Store,
        vectors: NextVectors,
        embed: EmbedQueue,
        *,
        secret: bytes,
        is_serving: bool,
        pending: Callable[[], int],
        every_s: float = 10.0,
        share: float = 0.5,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.progress = Reembedded()
        self._store = store
        self._vectors = vectors
        self._embed = embed
        self._target = fingerprint_tag(secret, embed.fingerprint)
        self._is_serving = is_serving
        self._pending = pending
        self._done_at = 0
        self._every_s = every_s
        self._share = share
        self._now = now
        self._sleep = sleep
        self._lease = Lease(store, LEASE, lease_s=_LEASE_S, now=now)

    def __repr__(self) -> str:
        return f"Reembedding({self.progress})"

    async def run(self) -> None:
        """Until cancelled. Faults of the store or the embedder only mean to wait."""
        while True:
            try:
                pending = self._pending()
                if pending != self._done_at and await self.all():
                    self._done_at = pending
            except (StoreUnavailable, EmbedderBusy, EmbedderFailed):
                await self._sleep(_PAUSE_S)
            await self._sleep(self._every_s)

    async def all(self) -> bool:
        """Once through everything; False where it is another's to do. Raises `StoreUnavailable`, and what embedding
        raises that is not about a text."""
        if not await self._may_go_on():
            return False
        try:
            self.progress.state = "embedding"
            self.progress.total = self.progress.left = sum(
                [await self._vectors.count(shard) for shard in range(SHARDS)]
            )
            if not await self._embed_all():
                return False
            if self._is_serving:
                self.progress.state = "settling"
                if not await self._settle_all():
                    return False
            self.progress.state, self.progress.left = "done", 0
            return True
        finally:
            await self._lease.release()

    async def _embed_all(self) -> bool:
        for shard in range(SHARDS):
            started = self._now()
            async for looked_at, names in self._vectors.lacking(shard):
                for begin in range(0, len(names), _TEXTS_AT_ONCE):
                    if not await self._may_go_on():
                        return False
                    some = names[begin : begin + _TEXTS_AT_ONCE]
                    await asyncio.gather(*(self._embed_one(shard, name) for name in some))
                    started = await self._rest(started)
                started = await self._rest(started)
                self.progress.left = max(0, self.progress.left - looked_at)
        return True

    async def _rest(self, started: float) -> float:
        await self._sleep((self._now() - started) * (1 / self._share - 1))
        return self._now()

    async def _embed_one(self, shard: int, name: bytes) -> None:
        record = await self._vectors.record(shard, name)
        if record is None:
            return
        try:
            embedded = await self._embed.embed(
                record.entry.question, deadline=self._now() + _EMBED_S, is_background=True
            )
        except UnfitText:
            self.progress.unfit += 1
            return
        if await self._vectors.adopt(record, embedded.vector):
            self.progress.done += 1

    async def _settle_all(self) -> bool:
        for shard in range(SHARDS):
            async for settled in self._vectors.settle(shard):
                self.progress.settled += settled
                if not await self._may_go_on():
                    return False
        return True

    async def _may_go_on(self) -> bool:
        aimed = self._store.script(
            _AIM,
            keys=[TARGET],
            args=[self._target, int(_TARGET_S * 1000)],
            deadline=self._now() + _PAUSE_S,
        )
        is_ours = bool(await answered(aimed)) and await self._lease.take()
        if not is_ours:
            self.progress.state = "elsewhere"
        return is_ours
