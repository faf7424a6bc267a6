"""A walk through what is kept can be left and taken up again; and what an owner keeps is told by its book."""

from __future__ import annotations

import time

import pytest

from cache import Account, Progress, Quota, Selector
from tests.cache.kept import NAMESPACE, Kept, kept

MANY = 700


async def many(where: Kept) -> set[int]:
    for number in range(MANY):
        await where.put(f"question {number}", is_similar=False, tags={"user": f"u{number % 2}"})
    return {where.id_of(f"question {number}") for number in range(MANY)}


@pytest.mark.parametrize("by_ids", [False, True])
@pytest.mark.parametrize("step", [5, 64, 10_000])
async def test_stretches_give_everything_once(step: int, by_ids: bool) -> None:
    """As long as nothing is written meanwhile."""
    async with kept() as where:
        wanted = await many(where)
        selector = Selector(owner="acme", entry_ids=frozenset(wanted) if by_ids else frozenset())
        found: list[int] = []
        place, stretches = None, 0
        while True:
            progress = Progress(place, lambda: True, step)
            async for page in where.inventory.headers(selector, progress=progress):
                found += [each.entry_id for each in page]
            place, stretches = progress.place, stretches + 1
            if place is None:
                break
        assert sorted(found) == sorted(wanted)
        assert stretches > MANY // (3 * step)


@pytest.mark.parametrize("step", [5, 64])
async def test_a_removal_in_stretches_removes_all_though_the_store_shrinks(step: int) -> None:
    async with kept() as where:
        await many(where)
        for selector, expected in ((Selector(tags={"user": "u1"}), MANY // 2), (Selector(), MANY // 2)):
            removed, place = 0, None
            while True:
                stop = Progress(place, lambda: True, step)
                done = await where.inventory.invalidate(selector, dry_run=False, progress=stop)
                removed, place = removed + done.removed, done.place
                if place is None:
                    break
            assert removed == expected
        assert (await where.inventory.invalidate(Selector())).found == 0


async def test_questions_alike_are_found_in_stretches_too() -> None:
    async with kept() as where:
        for number in range(150):
            await where.put(f"how do i reset my password {number}")
        selector = Selector(owner="acme", alike="how do i reset my password 1", min_similarity=0.5)
        whole = (await where.inventory.invalidate(selector)).found
        found, progress = 0, Progress(None, lambda: True, 16)
        while True:
            found += (await where.inventory.invalidate(selector, progress=progress)).found
            if progress.place is None:
                break
            progress = Progress(progress.place, lambda: True, 16)
        assert found == whole > 40


@pytest.mark.parametrize("place", ["", "1", "1.", "x.1", "1.2.3", "123.0", "1.-1"])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="no place"):
        Progress(place)


async def test_labels_that_begin_alike_are_one_selection() -> None:
    async with kept() as where:
        await where.put("one")
        await where.put("two", namespace="acme/default/m2")
        await where.put("three", namespace="acme/default2/m")
        await where.put("four", namespace="acme2/default/m")
        done = await where.inventory.invalidate(Selector(under="acme/default/"), dry_run=False)
        assert done.removed == 2
        assert await where.has("three", namespace="acme/default2/m")


async def test_what_an_owner_keeps_is_told_in_all_and_by_namespace() -> None:
    async with kept(quota_of=lambda _: Quota(most_entries=3)) as where:
        for text in ("one", "two", "three", "four"):
            await where.put(text)
        await where.put("other", namespace="acme/other/m")
        await where.put("else", namespace="globex/default/m")
        whole = await where.inventory.account("acme")
        assert whole.entries == 3
        labels = (NAMESPACE, "acme/nothing/m")
        found = await where.inventory.accounts("acme", labels, until=time.monotonic() + 5)
        assert found.is_whole
        assert found.of[NAMESPACE].entries == 2
        assert found.of["acme/nothing/m"] == Account(0, 0)
        assert found.others.entries == 1
        assert found.of[NAMESPACE].bytes + found.others.bytes == whole.bytes > 0
        assert await where.inventory.account("nobody") == Account(0, 0)


async def test_what_has_expired_is_not_counted_among_entries() -> None:
    async with kept() as where:
        await where.put("short", ttl_s=5)
        await where.put("long", ttl_s=500)
        where.clock.at_s += 10
        assert (await where.inventory.account("acme")).entries == 1


async def test_without_time_no_account_is_whole() -> None:
    async with kept() as where:
        await where.put("one")
        assert not (await where.inventory.accounts("acme", [NAMESPACE], until=0)).is_whole
