"""One process's cache over a shared real store, with its follower and, if a folder is given, its snapshots."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from cache import (
    EmbedQueue,
    Follower,
    Hit,
    Miss,
    RedisEntries,
    Rules,
    SemanticCache,
    Snapshots,
    Spaces,
    Unaudited,
)
from cache.entries.sealing import Seal, Unsealed
from cache.identity import changes_key, shard_of
from cache.index import Plan
from cache.replica.sealed_blocks import Owner, SnapshotRefused
from cache.replica.snapshot_file import Snapshot
from cache.testing import HashEmbedder
from gateway.store.client import StoreClient
from tests.cache.parts import ANSWER, SECRET, Clock, HasUrl, asked, connected, soon

TEXT = "how do i reset my password for the shop"
SIMILAR = "reset my password for the shop how do i do"


class Worker:
    def __init__(
        self,
        store: StoreClient,
        tail: StoreClient,
        *,
        embedder: HashEmbedder,
        clock: Clock,
        seal: Seal,
        plan: Plan,
        changes_kept: int,
        snapshot: Snapshot | None,
        secret: bytes = SECRET,
    ) -> None:
        self.store = store
        self.queue = EmbedQueue(embedder)
        self.spaces = Spaces(plan, wall=clock)
        for frozen in snapshot.spaces if snapshot is not None else ():
            self.spaces.thaw(frozen)
        self.entries = RedisEntries(store, secret=secret, seal=seal, changes_kept=changes_kept, wall=clock)
        self.follower = Follower(
            tail,
            self.entries,
            self.spaces,
            secret=secret,
            fingerprint=embedder.fingerprint,
            since=snapshot.contents if snapshot is not None else None,
            wall=clock,
        )
        self.cache = SemanticCache(
            self.entries,
            self.queue,
            self.spaces,
            Unaudited(Rules(threshold=0.8)),
            secret=secret,
            ttl_s=60.0,
            wall=clock,
        )

    @property
    def stream(self) -> str:
        """Of the shard that all namespaces of `team-a` lie in."""
        return changes_key(shard_of(SECRET, "team-a"))

    @property
    def ids(self) -> list[int]:
        return [entry_id for space in self.spaces for entry_id in space.ids]

    def follow(self) -> None:
        self._following = asyncio.create_task(self.follower.run())

    async def unfollow(self) -> None:
        self._following.cancel()
        await asyncio.gather(self._following, return_exceptions=True)

    async def ask(self, text: str, *, namespace: str = "team-a") -> Hit | Miss:
        question = asked(text, of=self.cache.partition(namespace, b"model=m"))
        return await self.cache.begin(question, deadline=soon()).result()

    async def teach(self, text: str, *, namespace: str = "team-a") -> int:
        missed = await self.ask(text, namespace=namespace)
        assert isinstance(missed, Miss)
        assert missed.ticket
        assert (await self.cache.store(missed.ticket, ANSWER)).is_stored
        return missed.ticket.entry_id

    async def finds(self, text: str, *, namespace: str = "team-a") -> bool:
        """By meaning, not by being the same text."""
        found = await self.ask(text, namespace=namespace)
        return isinstance(found, Hit) and found.tier == "semantic"


def owner_of(
    embedder: HashEmbedder | None = None, *, seal: Seal | None = None, secret: bytes = SECRET
) -> Owner:
    embedder = embedder or HashEmbedder()
    return Owner(secret, seal or Unsealed(), embedder.fingerprint, embedder.dimension)


@asynccontextmanager
async def worker(
    server: HasUrl,
    *,
    embedder: HashEmbedder | None = None,
    clock: Clock | None = None,
    folder: Path | None = None,
    every_s: float = 3600.0,
    seal: Seal | None = None,
    plan: Plan | None = None,
    changes_kept: int = 16_384,
    within_s: float = 10.0,
    deadline_s: float = 0.05,
    caught_up: Callable[[], None] = lambda: None,
) -> AsyncIterator[Worker]:
    """Caught up. Its snapshots are in `folder`, written at the end at the latest."""
    embedder, clock, seal = embedder or HashEmbedder(), clock or Clock(), seal or Unsealed()
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(connected(server, deadline_s=deadline_s))
        tail = await stack.enter_async_context(connected(server, silence_s=10.0, deadline_s=deadline_s))
        snapshots, snapshot = None, None
        if folder is not None:
            snapshots = Snapshots(
                folder, owner_of(embedder, seal=seal), every_s=every_s, at_end_s=30.0, wall=clock
            )
            with contextlib.suppress(SnapshotRefused):
                snapshot = await snapshots.read()
        made = Worker(
            store,
            tail,
            embedder=embedder,
            clock=clock,
            seal=seal,
            plan=plan or Plan(),
            changes_kept=changes_kept,
            snapshot=snapshot,
        )
        stack.callback(made.spaces.close)
        stack.callback(made.queue.close)
        made.follow()
        stack.push_async_callback(made.unfollow)
        await asyncio.wait_for(made.follower.caught_up.wait(), within_s)
        caught_up()
        assert await made.spaces.settle(within_s=6 * within_s)
        if snapshots is not None:
            await stack.enter_async_context(snapshots.kept(made.spaces, made.follower))
        yield made
