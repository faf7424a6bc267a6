"""How an index hears of what others stored: from the beginning, through outages, and never twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from cache import Hit, Miss
from cache.identity import SHARDS, changes_key
from cache.testing import HashEmbedder
from tests.cache.parts import ANSWER, Clock, connected, part
from tests.cache.workers import SIMILAR, TEXT, Worker, worker
from tests.valkey import Valkey, eventually, running_valkey


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


async def test_who_fell_behind_the_trimmed_stream_makes_its_index_anew(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        await one.teach(TEXT)
        removed = await one.teach("this one goes while nobody looks")
        await eventually(lambda: len(other.spaces) == 2)
        await other.unfollow()
        applied = other.follower.applied
        await one.cache.forget("team-a", removed)
        for number in range(100):
            await one.teach(f"number {number} of many that come at once")
        await store.execute("XTRIM", one.stream, "MAXLEN", 10)
        other.follow()
        await eventually(lambda: other.follower.rebuilds == {"start": SHARDS, "behind": 1})
        assert len(other.spaces) == 101
        await one.teach("the first after it")
        await eventually(lambda: len(other.spaces) == 102)
        assert other.follower.applied == applied + 1
        assert await other.finds(SIMILAR)


async def test_what_is_stored_and_removed_during_the_rebuilding_is_right_after_it(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        ids = [await one.teach(f"number {number} of many") for number in range(600)]
        await eventually(lambda: len(other.spaces) == 600)
        await other.unfollow()
        await one.teach("one more, which is trimmed away")
        await store.execute("XTRIM", one.stream, "MAXLEN", 0)
        other.follow()
        await eventually(lambda: other.follower.rebuilds["behind"] == 1 or other.follower.places is None)
        for number, entry_id in enumerate(ids[:50]):
            await one.cache.forget("team-a", entry_id)
            await one.teach(f"stored meanwhile {number}")
        await eventually(lambda: len(other.spaces) == 601)
        assert set(other.ids) == set(one.ids)


async def test_a_store_that_was_emptied_takes_its_vectors_along_and_hits_come_back(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        await store.execute("FLUSHALL")
        await eventually(lambda: len(one.spaces) + len(other.spaces) == 0)
        assert not await one.finds(SIMILAR)
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        assert await other.finds(SIMILAR)


async def test_a_store_that_comes_back_empty_is_noticed_even_if_as_much_was_added_since(
    server: Valkey,
) -> None:
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        await other.unfollow()
        await store.execute("FLUSHALL")
        await one.teach("quite another matter than that")
        other.follow()
        await eventually(lambda: set(other.ids) == set(one.ids) and len(other.ids) == 1)


async def test_a_replica_that_lagged_and_took_over_is_noticed(server: Valkey) -> None:
    """What was written last is lost; its vectors are let go."""
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        await one.teach(TEXT)
        kept = await store.execute("DUMP", one.stream)
        lost = await one.teach("written a moment before the failover")
        await eventually(lambda: len(other.spaces) == 2)
        await store.execute("DEL", one.stream, *(await store.execute("KEYS", f"*:?:{lost:016x}")))
        await store.execute("RESTORE", one.stream, 0, kept)
        await eventually(lambda: other.follower.rebuilds["reset"] == 1)
        assert len(other.spaces) == 1


async def test_a_stream_that_was_evicted_is_no_loss(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other, connected(server) as store:
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        await store.execute("DEL", one.stream)
        await eventually(lambda: other.follower.rebuilds["reset"] == 1)
        async with worker(server) as late:
            assert len(other.spaces) == len(late.spaces) == 1
            await one.teach("quite another matter than that")
            await eventually(lambda: len(other.spaces) == len(late.spaces) == 2)


async def test_it_tells_how_far_behind_it_is(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        assert other.follower.lag_s == other.follower.items_behind == 0
        server.hang()
        try:
            await eventually(lambda: other.follower.lag_s > 0.3, within_s=20)
        finally:
            server.resume()
        await one_teaches(one)
        await eventually(lambda: len(other.spaces) == 1 and other.follower.lag_s < 0.3)


async def one_teaches(one: Worker) -> None:
    """As soon as its store is there again."""

    async def taught() -> bool:
        missed = await one.ask(TEXT)
        return (
            isinstance(missed, Miss)
            and missed.ticket is not None
            and (await one.cache.store(missed.ticket, ANSWER)).is_stored
        )

    while not await taught():  # noqa: ASYNC110 - each try waits for the store's deadline
        await asyncio.sleep(0.05)


async def test_a_space_that_had_to_make_room_can_be_loaded_again(server: Valkey) -> None:
    async with worker(server) as one:
        entry_id = await one.teach(TEXT)
        await one.teach("of another namespace", namespace="team-b")
        (space,) = [each for each in one.spaces if entry_id in each.ids]
        loaded = await one.follower.load(space.name)
        assert [each.entry_id for each in loaded] == [entry_id]


async def test_a_flush_by_another_worker_during_a_write_lets_nothing_reappear(server: Valkey) -> None:
    async with worker(server) as one, worker(server) as other:
        missed = await one.ask(TEXT)
        assert isinstance(missed, Miss)
        assert missed.ticket
        await other.cache.flush(part().namespace)
        assert not (await one.cache.store(missed.ticket, ANSWER)).is_stored
        assert isinstance(await other.ask(TEXT), Miss)
        assert isinstance(await one.ask(SIMILAR), Miss)
