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


@pytest.mark.parametrize("most", [1, 7, 100, 10_000])
async def test_pages_give_everything_once_and_never_more_than_was_asked_for(most: int) -> None:
    """As long as nothing is written meanwhile."""
    async with kept() as where:
        wanted = {each for each in await many(where) if most > 1 or each % 20 == 0}
        selector = Selector(owner="acme", entry_ids=frozenset(wanted) if most == 1 else frozenset())
        found: list[int] = []
        place = None
        while True:
            progress = Progress(place=place, most=most)
            page = [
                each.entry_id
                async for some in where.inventory.headers(selector, progress=progress)
                for each in some
            ]
            assert len(page) <= most
            found += page
            place = progress.place
            if place is None:
                break
        assert sorted(found) == sorted(wanted)


async def test_a_removal_in_stretches_removes_all_and_counts_what_went() -> None:
    async with kept() as where:
        await many(where)
        selector = Selector(tags={"user": "u1"})
        removed, place, stretches = 0, None, 0
        while True:
            stop = Progress(place=place, is_enough=lambda: True)
            done = await where.inventory.invalidate(selector, dry_run=False, progress=stop)
            removed, place, stretches = removed + done.removed, done.place, stretches + 1
            if place is None:
                break
        assert removed == MANY // 2
        assert stretches > 2
        assert (await where.inventory.invalidate(selector)).found == 0
        assert (await where.inventory.invalidate(Selector())).found == MANY // 2


async def test_questions_alike_are_found_in_stretches_too() -> None:
    async with kept() as where:
        for number in range(150):
            await where.put(f"how do i reset my password {number}")
        selector = Selector(owner="acme", alike="how do i reset my password 1", min_similarity=0.5)
        whole = (await where.inventory.invalidate(selector)).found
        found, progress = 0, Progress(most=40)
        while True:
            found += (await where.inventory.invalidate(selector, progress=progress)).found
            if progress.place is None:
                break
            progress = Progress(place=progress.place, most=40)
        assert found == whole > 40


@pytest.mark.parametrize("place", ["", "1", "1.2", "x.1.", "1.2.q:00", "1.2.e:" + "0" * 17, "123.0."])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="no place"):
        Progress(place=place)


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
