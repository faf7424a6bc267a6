"""What is kept can be listed and removed by what it is, and nothing of it comes back."""

from __future__ import annotations

import asyncio

import pytest

from cache import AesGcmSeal, RedisEntries, Selector, StoreUnavailable, UnfitText
from cache.embed import NoEmbedder
from cache.entries.inventory import Inventory
from cache.identity import Keys
from tests.cache.kept import NAMESPACE, Kept, kept
from tests.cache.parts import SECRET, real_store, soon

SIMILAR = "how do i reset my password for the shop", "reset my password for the shop how do i do"
ELSE = "when does the library open on sundays"


async def listed(where: Kept, selector: Selector = Selector()) -> set[int]:  # noqa: B008 - frozen
    return {header.entry_id async for page in where.inventory.headers(selector) for header in page}


async def several(where: Kept) -> None:
    await where.put("one", tags={"user": "u1", "key": "k1", "version": "m@1"})
    await where.put("two", tags={"user": "u2", "key": "k1", "version": "m@2"})
    await where.put("three", namespace="acme/other/m", tags={"user": "u1", "key": "k2"})
    await where.put("four", namespace="globex/default/m", tags={"user": "u1", "key": "k3"})


EACH = {"one": NAMESPACE, "two": NAMESPACE, "three": "acme/other/m", "four": "globex/default/m"}


async def left(where: Kept) -> set[str]:
    return {text for text, namespace in EACH.items() if await where.has(text, namespace=namespace)}


@pytest.mark.parametrize(
    ("selector", "gone"),
    [
        (Selector(), {"one", "two", "three", "four"}),
        (Selector(owner="acme"), {"one", "two", "three"}),
        (Selector(owner="*"), set()),
        (Selector(owner="acme/default"), set()),
        (Selector(namespace=NAMESPACE), {"one", "two"}),
        (Selector(namespace="acme/default"), set()),
        (Selector(owner="globex", namespace=NAMESPACE), set()),
        (Selector(tags={"user": "u1"}), {"one", "three", "four"}),
        (Selector(owner="acme", tags={"user": "u1"}), {"one", "three"}),
        (Selector(tags={"user": "u1", "key": "k1"}), {"one"}),
        (Selector(tags={"key": "u1"}), set()),
        (Selector(tags={"version": "m@1"}), {"one"}),
        (Selector(entry_ids=frozenset({Kept.id_of("two"), 12345})), {"two"}),
        (Selector(owner="globex", entry_ids=frozenset({Kept.id_of("two")})), set()),
    ],
    ids=[
        "everything",
        "an owner",
        "no pattern",
        "no prefix of a namespace",
        "a namespace",
        "no prefix of another",
        "an owner that has not this namespace",
        "a user",
        "a user of an owner",
        "a user by a key",
        "no other tag of that value",
        "a version",
        "numbers",
        "numbers of another owner",
    ],
)
async def test_what_is_meant_is_removed_and_nothing_else(selector: Selector, gone: set[str]) -> None:
    async with kept() as where:
        await several(where)
        dry = await where.inventory.invalidate(selector)
        assert await left(where) == set(EACH)
        done = await where.inventory.invalidate(selector, dry_run=False)
        assert await left(where) == set(EACH) - gone
        assert (dry.found, dry.removed, done.found, done.removed) == (len(gone), 0, len(gone), len(gone))
        assert dict(done.namespaces) == dict(dry.namespaces)
        assert sum(done.namespaces.values()) == len(gone)


async def test_what_is_older_than_an_age_is_removed() -> None:
    async with kept() as where:
        await where.put("old", ttl_s=1000)
        where.clock.at_s += 100
        await where.put("new", ttl_s=1000)
        await where.inventory.invalidate(Selector(older_than_s=50), dry_run=False)
        assert [await where.has(text) for text in ("old", "new")] == [False, True]


async def test_questions_alike_to_a_text_are_removed() -> None:
    async with kept() as where:
        for text in (*SIMILAR, ELSE):
            await where.put(text)
        await where.put("exact only", is_similar=False)
        await where.put(SIMILAR[0], namespace="globex/default/m")
        selector = Selector(owner="acme", alike=SIMILAR[0], min_similarity=0.8)
        done = await where.inventory.invalidate(selector, dry_run=False)
        assert done.removed == 2
        assert [await where.has(text) for text in (*SIMILAR, ELSE, "exact only")] == [
            False,
            False,
            True,
            True,
        ]
        assert await where.has(SIMILAR[0], namespace="globex/default/m")


async def test_without_an_embedder_nothing_is_alike_and_nothing_is_removed() -> None:
    async with kept() as where:
        await where.put("one")
        inventory = Inventory(where.entries, NoEmbedder(), secret=SECRET)
        with pytest.raises(UnfitText):
            await inventory.invalidate(Selector(alike="one"), dry_run=False)
        assert await where.has("one")


async def test_the_vector_goes_with_the_entry() -> None:
    async with kept() as where:
        await several(where)
        await where.inventory.invalidate(Selector(owner="acme"), dry_run=False)
        shard = Keys(SECRET, NAMESPACE).shard
        assert [page async for page in where.entries.scan_vectors(shard)] in ([], [[]])


@pytest.mark.parametrize(
    "selector",
    [Selector(tags={"version": "m@1"}), Selector(), Selector(owner="acme"), Selector(alike="one")],
    ids=["version", "everything", "owner", "alike"],
)
async def test_an_answer_on_its_way_to_the_store_does_not_come_back(selector: Selector) -> None:
    async with kept() as where:
        epoch = await where.entries.epoch(NAMESPACE, deadline=soon())
        await where.put("one", tags={"version": "m@1"})
        await where.inventory.invalidate(selector, dry_run=False)
        assert await where.put("one", tags={"version": "m@1"}, epoch=epoch) == "invalidated"
        assert not await where.has("one")
        assert await where.put("one", tags={"version": "m@1"}) == "stored"  # asked since


async def test_a_write_under_way_elsewhere_is_not_disturbed_by_a_dry_run() -> None:
    async with kept() as where:
        epoch = await where.entries.epoch(NAMESPACE, deadline=soon())
        await where.inventory.invalidate(Selector())
        assert await where.put("one", epoch=epoch) == "stored"


async def test_no_write_that_began_before_outlives_an_invalidation_under_load() -> None:
    """Writers that read the state, wait, and write, against invalidations of their version: after each one nothing
    is there that was begun before it."""
    async with kept() as where:
        stop = asyncio.Event()

        async def write(number: int) -> None:
            turn = 0
            while not stop.is_set():
                epoch, turn = await where.entries.epoch(NAMESPACE, deadline=soon()), turn + 1
                began = generation
                await asyncio.sleep(0)
                tags = {"version": f"{began}"}
                await where.put(f"{number} {turn}", tags=tags, epoch=epoch, is_similar=False)

        generation = 0
        writers = [asyncio.create_task(write(number)) for number in range(4)]
        for _ in range(10):
            ended, generation = generation, generation + 1
            await where.inventory.invalidate(Selector(tags={"version": f"{ended}"}), dry_run=False)
            assert await listed(where, Selector(tags={"version": f"{ended}"})) == set()
        stop.set()
        await asyncio.gather(*writers)


async def test_a_header_tells_what_it_is_without_the_texts() -> None:
    async with kept(seal=AesGcmSeal([b"k" * 32])) as where:
        await where.put("Which pills does Zyxgard take?", tags={"user": "Zyxgard"}, ttl_s=50)
        (header,) = [each async for page in where.inventory.headers(Selector()) for each in page]
        assert header.namespace == NAMESPACE
        assert header.expires_at_s - header.created_at_s == 50
        assert header.is_similar
        assert header.size > 30
        assert set(header.tags) == {"user"}
        assert "Zyxgard" not in f"{header!r} {header.tags}"


async def test_texts_are_told_on_demand() -> None:
    async with kept(seal=AesGcmSeal([b"k" * 32])) as where:
        await several(where)
        selector = Selector(tags={"user": "u2"})
        (record,) = [each async for each in where.inventory.records(selector)]
        assert (record.entry.question, record.entry.answer.text) == ("two", "Paris")


async def test_only_what_may_be_served_is_listed() -> None:
    async with kept() as where:
        await where.put("expired", ttl_s=5)
        await where.put("flushed", namespace="acme/flushed/m")
        await where.put("there")
        await where.entries.flush("acme/flushed/m", deadline=soon())
        where.clock.at_s += 10
        await where.store.execute("SET", Keys(SECRET, NAMESPACE).entry(1), b"rubbish")
        assert await listed(where) == {where.id_of("there")}


async def test_a_header_with_much_to_say_is_read_whole() -> None:
    async with kept() as where:
        await where.put("one", tags={f"name {number}": "value" for number in range(300)})
        assert await listed(where) == {where.id_of("one")}


async def test_thousands_are_listed_and_removed_in_pages_with_progress() -> None:
    async with kept() as where:
        for start in range(0, 2000, 100):
            await asyncio.gather(*(where.put(f"{n}", is_similar=False) for n in range(start, start + 100)))
        told: list[int] = []
        done = await where.inventory.invalidate(
            Selector(owner="acme"), dry_run=False, tell=lambda progress: told.append(progress.removed)
        )
        assert (done.found, done.removed, done.shards_done, done.shards) == (2000, 2000, 1, 1)
        assert len(told) > 5
        assert told == sorted(told)
        assert await where.store.execute("KEYS", "*:e:*") == []


async def test_a_store_that_is_down_is_named_so() -> None:
    async with real_store() as (server, store):
        inventory = Inventory(RedisEntries(store, secret=SECRET), NoEmbedder(), secret=SECRET)
        await server.kill()
        with pytest.raises(StoreUnavailable):
            await anext(inventory.headers(Selector()))
        with pytest.raises(StoreUnavailable):
            await inventory.invalidate(Selector(), dry_run=False)
