"""How an index hears of what others stored: from the beginning, through outages, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cache import (
    EmbedQueue,
    Follower,
    Hit,
    Miss,
    RedisEntries,
    Rules,
    SemanticCache,
    Spaces,
    Unaudited,
)
from cache.identity import SHARDS, changes_key
from cache.testing import HashEmbedder
from gateway.store.client import StoreClient
from tests.cache.parts import ANSWER, SECRET, Clock, asked, connected, part, soon
from tests.valkey import Valkey, eventually, running_valkey

TEXT = "how do i reset my password for the shop"
SIMILAR = "reset my password for the shop how do i do"


class Worker:
    """One process's cache over the shared store."""

    def __init__(
        self, store: StoreClient, tail: StoreClient, *, embedder: HashEmbedder, clock: Clock
    ) -> None:
        self.queue = EmbedQueue(embedder)
        self.spaces = Spaces(wall=clock)
        self.follower = Follower(
            tail, self.spaces, secret=SECRET, fingerprint=embedder.fingerprint, wall=clock
        )
        entries = RedisEntries(store, secret=SECRET, wall=clock)
        self.cache = SemanticCache(
            entries,
            self.queue,
            self.spaces,
            Unaudited(Rules(threshold=0.8)),
            secret=SECRET,
            ttl_s=60.0,
            wall=clock,
        )

    async def ask(self, text: str) -> Hit | Miss:
        return await self.cache.begin(asked(text), deadline=soon()).result()

    async def teach(self, text: str) -> int:
        missed = await self.ask(text)
        assert isinstance(missed, Miss)
        assert missed.ticket
        assert (await self.cache.store(missed.ticket, ANSWER)).is_stored
        return missed.ticket.entry_id


@asynccontextmanager
async def worker(
    server: Valkey, *, embedder: HashEmbedder | None = None, clock: Clock | None = None
) -> AsyncIterator[Worker]:
    async with connected(server) as store, connected(server, silence_s=10.0) as tail:
        made = Worker(store, tail, embedder=embedder or HashEmbedder(), clock=clock or Clock())
        following = asyncio.create_task(made.follower.run())
        try:
            await asyncio.wait_for(made.follower.caught_up.wait(), 5.0)
            yield made
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
            made.queue.close()


@pytest.fixture
async def server() -> AsyncIterator[Valkey]:
    async with running_valkey() as running:
        yield running


async def test_what_one_worker_stores_another_finds_by_meaning(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        hit = await other.ask(SIMILAR)
        assert isinstance(hit, Hit)
        assert hit.tier == "semantic"


async def test_after_a_restart_semantic_hits_come_back(server: Valkey) -> None:
    async with worker(server) as before:
        await before.teach(TEXT)
    async with worker(server) as after:
        assert isinstance(await after.ask(SIMILAR), Hit)


async def test_own_writes_come_back_without_counting_twice(server: Valkey) -> None:
    async with worker(server) as one:
        await one.teach(TEXT)
        async with worker(server) as marker:
            await marker.teach("something else to wait for")
        await eventually(lambda: len(one.spaces) == 2)


async def test_removals_and_flushes_reach_the_others(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        entry_id = await one.teach(TEXT)
        await one.teach("quite another matter than that")
        await eventually(lambda: len(other.spaces) == 2)
        await one.cache.forget("team-a", entry_id)
        await eventually(lambda: len(other.spaces) == 1)
        await one.cache.flush("team-a")
        await eventually(lambda: len(other.spaces) == 0)


async def test_what_has_expired_is_passed_over(server: Valkey) -> None:
    async with worker(server) as before:
        await before.teach(TEXT)
    later = Clock()
    later.at_s += 61.0
    async with worker(server, clock=later) as after:
        assert len(after.spaces) == 0


async def test_vectors_of_another_embedder_are_passed_over(server: Valkey) -> None:
    async with worker(server) as before:
        await before.teach(TEXT)
    async with worker(server, embedder=HashEmbedder(dimension=32)) as after:
        assert len(after.spaces) == 0
        missed = await after.ask(SIMILAR)
        assert isinstance(missed, Miss)


async def test_damaged_items_are_passed_over(server: Valkey) -> None:
    async with worker(server) as one, connected(server) as store:
        for rubbish in (b"", b"not msgpack", b"\x80\x04\x95pickle"):
            await store.execute("XADD", changes_key(0), "*", "c", rubbish)
            await store.execute("XADD", changes_key(3), "*", "another field", rubbish)
        async with worker(server) as other:
            await other.teach(TEXT)
        await eventually(lambda: len(one.spaces) == 1)


async def test_it_goes_on_after_the_store_was_down(server: Valkey) -> None:
    async with worker(server) as one:
        await server.kill()
        await server.start()
        async with worker(server) as other:
            await other.teach(TEXT)
        await eventually(lambda: len(one.spaces) == 1)


async def test_a_stream_that_lies_before_its_place_is_read_from_the_beginning(server: Valkey) -> None:
    """A store restored from an older copy, or whose clock was set back."""
    async with worker(server) as one, connected(server) as store:
        await one.teach(TEXT)
        names = [name for name in map(changes_key, range(SHARDS)) if await store.execute("EXISTS", name)]
        items = [(name, await store.execute("XRANGE", name, "-", "+")) for name in names]
        await eventually(lambda: len(one.spaces) == 1)
        one.spaces.drop_namespace(b"")
        for name, kept in items:
            await store.execute("DEL", name)
            await store.execute("XADD", name, "1-1", *kept[0][1])
        await store.execute("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        await eventually(lambda: len(one.spaces) == 1)


async def test_a_flush_by_another_worker_during_a_write_lets_nothing_reappear(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        missed = await one.ask(TEXT)
        assert isinstance(missed, Miss)
        assert missed.ticket
        await other.cache.flush(part().namespace)
        assert not (await one.cache.store(missed.ticket, ANSWER)).is_stored
        assert isinstance(await other.ask(TEXT), Miss)
        assert isinstance(await one.ask(SIMILAR), Miss)
