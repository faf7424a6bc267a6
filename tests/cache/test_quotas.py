"""What one owner keeps stays within its quota, and the book of it may be lost at any time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cache import Answer, Quota, changes
from cache.identity import Keys, space
from tests.cache.kept import EMBEDDER, NAMESPACE, Kept, kept
from tests.cache.parts import SECRET, part

KEYS = Keys(SECRET, NAMESPACE)


def answer(size: int) -> Answer:
    return Answer("", b"x" * size)


def quota(most_bytes: int = 1 << 30, most_entries: int = 1_000_000) -> dict[str, object]:
    return {"quota_of": {"acme": Quota(most_bytes, most_entries)}.get}


async def booked(where: Kept) -> tuple[int, int]:
    """Bytes and entries, by the book."""
    total = await where.store.execute("ZSCORE", KEYS.book, "b")
    return int(total or 0), max(await where.store.execute("ZCARD", KEYS.book) - 1, 0)


async def in_store(where: Kept) -> tuple[int, int]:
    names = [
        name for kind in ("e", "v") for name in await where.store.execute("KEYS", f"{KEYS.prefix}{kind}:*")
    ]
    sizes = [await where.store.execute("STRLEN", name) for name in names]
    return sum(sizes), len([name for name in names if b":e:" in name])


async def test_beyond_so_many_entries_those_go_first_that_expire_first() -> None:
    async with kept(**quota(most_entries=3)) as where:
        for text, ttl_s in (("long", 90.0), ("short", 10.0), ("middle", 50.0), ("new", 60.0)):
            assert await where.put(text, ttl_s=ttl_s) == "stored"
        assert [await where.has(text) for text in ("long", "short", "middle", "new")] == [
            True,
            False,
            True,
            True,
        ]


async def test_beyond_so_many_bytes_as_many_go_as_it_needs() -> None:
    async with kept(**quota(most_bytes=20_000)) as where:
        for number in range(6):
            await where.put(f"small {number}", answer=answer(1000), ttl_s=10 + number)
        assert await where.put("large", answer=answer(15_000), ttl_s=60) == "stored"
        assert await where.has("large")
        assert not await where.has("small 0")
        assert await where.has("small 5")
        assert (await in_store(where))[0] <= 20_000


async def test_what_alone_is_too_much_is_refused_and_costs_nobody_its_place() -> None:
    async with kept(**quota(most_bytes=5_000)) as where:
        await where.put("kept")
        assert await where.put("large", answer=answer(6_000)) == "quota"
        assert await where.has("kept")


async def test_what_leaves_is_announced() -> None:
    async with kept(**quota(most_entries=1)) as where:
        await where.put("first", ttl_s=10)
        await where.put("second")
        items = await where.store.execute("XRANGE", KEYS.changes, "-", "+")
        found = [changes.decode(fields[1]) for _, fields in items]
        of = space(SECRET, part(NAMESPACE), EMBEDDER.fingerprint)
        assert found[-2:] == [changes.Removed(of, where.id_of("first")), found[-1]]
        assert isinstance(found[-1], changes.Added)


async def test_owners_have_quotas_of_their_own_over_all_their_namespaces() -> None:
    limits = {"acme": Quota(most_entries=2), "other": Quota()}
    async with kept(quota_of=limits.get) as where:
        await where.put("one", namespace="acme/a/m", ttl_s=10)
        await where.put("two", namespace="acme/b/m", ttl_s=20)
        for number in range(3):
            await where.put(f"{number}", namespace="other/a/m")
        await where.put("three", namespace="acme/a/m", ttl_s=30)
        assert not await where.has("one", namespace="acme/a/m")
        assert await where.has("two", namespace="acme/b/m")
        assert [await where.has(f"{number}", namespace="other/a/m") for number in range(3)] == [True] * 3


async def test_the_book_follows_replacement_removal_and_blocking() -> None:
    async with kept(**quota()) as where:
        for size in (10, 3000, 200):
            await where.put("replaced", answer=answer(size))
        await where.put("removed")
        await where.put("blocked")
        await where.put("exact", is_similar=False)
        await where.entries.remove(NAMESPACE, [where.id_of("removed")], deadline=1e18)
        await where.entries.block(NAMESPACE, where.id_of("blocked"), 7, deadline=1e18)
        assert await booked(where) == await in_store(where)
        assert (await booked(where))[1] == 2


async def test_what_expired_leaves_the_book_with_later_writes() -> None:
    async with kept(**quota(most_entries=2)) as where:
        await where.put("brief", ttl_s=0.05)
        await where.put("lasting")
        while await where.store.execute("EXISTS", KEYS.entry(where.id_of("brief"))):
            pass
        await where.put("new")
        assert await where.has("lasting")
        assert (await booked(where))[1] == 2


async def test_a_quota_that_was_lowered_holds_after_a_few_writes() -> None:
    limits = {"acme": Quota()}
    async with kept(quota_of=limits.get) as where:
        for number in range(200):
            await where.put(f"{number}", is_similar=False)
        limits["acme"] = Quota(most_entries=10)
        outcomes = [await where.put(f"new {number}", is_similar=False) for number in range(4)]
        assert outcomes == ["quota", "quota", "stored", "stored"]  # each let 64 go
        assert (await in_store(where))[1] <= 10


@pytest.mark.parametrize("lost", ["book", "era", "epoch", "changes"])
async def test_a_lost_key_is_no_error_and_makes_no_wrong_answer(lost: str) -> None:
    async with kept(**quota(most_entries=5)) as where:
        await where.put("before")
        await where.store.execute("DEL", getattr(KEYS, lost))
        assert await where.put("after") == "stored"
        assert await where.has("after")
        assert await where.has("before") is (lost != "epoch")
        for number in range(20):
            await where.put(f"{number}")
        assert (await booked(where))[1] <= 5


STEPS = st.lists(
    st.tuples(st.sampled_from(["put", "remove", "lose"]), st.integers(0, 9), st.integers(1, 2000)),
    max_size=30,
)


@settings(max_examples=15, deadline=None)
@given(steps=STEPS)
async def test_whatever_happens_the_store_holds_no_more_than_the_quota(
    steps: list[tuple[str, int, int]],
) -> None:
    """The book may be lost: until what it forgot has left by itself, that comes on top."""
    async with kept(**quota(most_bytes=6_000, most_entries=4)) as where:
        forgotten = 0
        for act, number, size in steps:
            if act == "put":
                await where.put(f"{number}", answer=answer(size))
            elif act == "remove":
                await where.entries.remove(NAMESPACE, [where.id_of(f"{number}")], deadline=1e18)
            else:
                await where.store.execute("DEL", KEYS.book)
                forgotten += (await in_store(where))[1]
            _, entries = await in_store(where)
            assert entries <= 4 + forgotten
            if not forgotten:
                assert await booked(where) == await in_store(where)
