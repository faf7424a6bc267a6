"""A new embedder beside the old one: both spaces live until all is embedded anew, whoever dies, and nothing is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from cache import EmbedQueue, Hit, UnfitText
from cache.entries.next_vectors import NextVectors
from cache.identity import Keys
from cache.model import Vector
from cache.replica.reembedding import Reembedding
from cache.testing import HashEmbedder
from tests.cache.parts import SECRET, connected
from tests.cache.workers import SIMILAR, TEXT, Worker, worker
from tests.valkey import Valkey, eventually, running_valkey


class New(HashEmbedder):
    """The one to follow. Counts what it embeds, and cannot read a text with `unreadable`."""

    def __init__(self) -> None:
        super().__init__(dimension=32)
        self.texts: list[str] = []

    def embed(self, text: str) -> Vector:
        if "unreadable" in text:
            raise UnfitText("unknown-tokens")
        self.texts.append(text)
        return super().embed(text)


@pytest.fixture
async def server() -> AsyncIterator[Valkey]:
    async with running_valkey() as running:
        yield running


@contextmanager
def reembedding(one: Worker, embedder: HashEmbedder, *, is_serving: bool) -> Iterator[Reembedding]:
    """As a process has it whose store is that worker's. It takes no rests."""
    queue = EmbedQueue(embedder)

    async def no_rest(_: float) -> None:
        await asyncio.sleep(0)

    try:
        vectors = NextVectors(one.store, one.entries, secret=SECRET, fingerprint=embedder.fingerprint)
        yield Reembedding(
            one.store,
            vectors,
            queue,
            secret=SECRET,
            is_serving=is_serving,
            pending=lambda: 1,
            sleep=no_rest,
        )
    finally:
        queue.close()


async def slots(one: Worker) -> tuple[int, int]:
    """How many own and next vectors the store keeps."""
    return (len(await one.store.execute("KEYS", "*:v:*")), len(await one.store.execute("KEYS", "*:n:*")))


async def test_while_the_next_one_is_embedded_the_present_one_serves_even_over_a_restart(
    server: Valkey,
) -> None:
    async with worker(server) as old:
        await old.teach(TEXT)
        await old.teach("quite another matter than that")
        with reembedding(old, New(), is_serving=False) as work:
            assert await work.all()
        assert (work.progress.state, work.progress.total, work.progress.left) == ("done", 2, 0)
        assert work.progress.done == 2
        assert await slots(old) == (2, 2)
        assert await old.finds(SIMILAR)
        async with worker(server) as again:
            assert await again.finds(SIMILAR)
        async with worker(server, embedder=New()) as new:
            assert len(new.ids) == 2
            assert await new.finds(SIMILAR)


async def test_who_serves_with_the_new_one_lets_the_old_vectors_go(server: Valkey) -> None:
    async with worker(server) as old:
        entry_id = await old.teach(TEXT)
        async with worker(server, embedder=New()) as new:
            assert new.follower.passed_over == 1
            hit = await new.ask(TEXT)
            assert isinstance(hit, Hit)
            assert hit.tier == "exact"
            assert not await new.finds(SIMILAR)
            with reembedding(new, New(), is_serving=True) as work:
                assert await work.all()
            await eventually(lambda: new.ids == [entry_id])
            assert await new.finds(SIMILAR)
            assert await slots(new) == (1, 0)
            assert await old.finds(SIMILAR)  # who still runs has its own in memory


async def test_the_owners_book_keeps_count(server: Valkey) -> None:
    async with worker(server) as old:
        await old.teach(TEXT)
        kept = await old.teach("quite another matter than that")
        with reembedding(old, New(), is_serving=True) as work:
            await work.all()
        keys = Keys(SECRET, "team-a")
        bytes_of = [
            await old.store.execute("STRLEN", name)
            for kind in ("e", "v")
            for name in await old.store.execute("KEYS", f"*:{kind}:*")
        ]
        assert int(await old.store.execute("ZSCORE", keys.book, "b")) == sum(bytes_of)
        await old.cache.forget("team-a", kept)
        assert await old.store.execute("ZCARD", keys.book) == 2  # the other one, and the sum


async def test_whoever_takes_over_from_one_that_died_embeds_only_what_is_left(server: Valkey) -> None:
    embedder = New()
    async with worker(server) as old:
        for number in range(40):
            await old.teach(f"number {number} of many")
        with reembedding(old, embedder, is_serving=False) as work:
            doing = asyncio.create_task(work.all())
            await eventually(lambda: work.progress.done >= 16)
            doing.cancel()
            await asyncio.gather(doing, return_exceptions=True)
        assert work.progress.done < 40
        async with worker(server) as other:
            with reembedding(other, embedder, is_serving=False) as rest:
                assert await rest.all()
        assert len(set(embedder.texts)) == 40
        assert len(embedder.texts) <= 40 + 16  # what was under way when it died
        assert await slots(old) == (40, 40)


async def test_one_does_it_and_when_it_is_gone_another(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        await one.teach(TEXT)
        with (
            reembedding(one, New(), is_serving=False) as first,
            reembedding(other, New(), is_serving=False) as second,
        ):
            assert await first._lease.take()
            assert not await second.all()
            assert second.progress.state == "elsewhere"
            await first._lease.release()
            assert await second.all()


async def test_the_old_one_does_not_undo_what_the_new_one_did(server: Valkey) -> None:
    """Where hosts are replaced one after another, one that still has the old embedder may start anew."""
    async with worker(server) as old:
        await old.teach(TEXT)
        with reembedding(old, New(), is_serving=True) as work:
            assert await work.all()
        with reembedding(old, HashEmbedder(), is_serving=True) as undoing:
            assert not await undoing.all()
        assert await slots(old) == (1, 0)


async def test_what_is_removed_takes_both_vectors_along(server: Valkey) -> None:
    async with worker(server) as old:
        entry_id = await old.teach(TEXT)
        await old.teach("quite another matter than that")
        with reembedding(old, New(), is_serving=False) as work:
            await work.all()
        await old.cache.forget("team-a", entry_id)
        assert await slots(old) == (1, 1)


async def test_what_was_flushed_or_removed_meanwhile_gets_no_vector(server: Valkey) -> None:
    async with worker(server) as old:
        kept, removed = await old.teach(TEXT), await old.teach("this one is removed meanwhile")
        with reembedding(old, New(), is_serving=False) as work:
            shard = Keys(SECRET, "team-a").shard
            records = {each: await work._vectors.record(shard, b"%016x" % each) for each in (kept, removed)}
            await old.cache.forget("team-a", removed)
            for entry_id, is_adopted in ((kept, True), (removed, False)):
                record = records[entry_id]
                assert record is not None
                assert await work._vectors.adopt(record, New().embed("any")) is is_adopted
            await old.cache.flush("team-a")
            record = records[kept]
            assert record is not None
            assert not await work._vectors.adopt(record, New().embed("any"))


async def test_a_text_that_the_new_one_cannot_read_is_matched_exactly_only(server: Valkey) -> None:
    text = "an unreadable rune on an old stone"
    async with worker(server) as old:
        await old.teach(text)
        await old.teach(TEXT)
        with reembedding(old, New(), is_serving=True) as work:
            assert await work.all()
        assert (work.progress.done, work.progress.unfit) == (1, 1)
        assert await slots(old) == (1, 0)
        async with worker(server, embedder=New()) as new:
            hit = await new.ask(text)
            assert isinstance(hit, Hit)
            assert hit.tier == "exact"


async def test_it_goes_on_by_itself_after_the_store_was_down(server: Valkey) -> None:
    async with worker(server) as old, connected(server):
        await old.teach(TEXT)
        with reembedding(old, New(), is_serving=False) as work:
            await server.kill()
            running = asyncio.create_task(work.run())
            try:
                await asyncio.sleep(0)
                await server.start()
                await eventually(lambda: work.progress.state == "done", within_s=10)
            finally:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
        assert await slots(old) == (1, 1)
