"""Answers of a version that nobody serves any more go by themselves, and others stay."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cache import Inventory, NoEmbedder, RedisEntries, Selector
from gateway.evidence.old_versions import OldVersions
from gateway.settings.reading import Settings
from gateway.store.client import StoreClient
from tests.cache.kept import Kept, kept
from tests.running import running_gateway, settings_for
from tests.scripted import ScriptedUpstream
from tests.valkey import running_valkey

SECRET = b"s" * 32  # running_gateway's


def looking(where: Kept, *serving: str, kept_s: float = 600.0) -> OldVersions:
    """Of one host; its turn is over at once."""
    return OldVersions(
        where.store,
        where.inventory,
        serving=lambda: set(serving),
        kept_s=kept_s,
        every_s=60,
        wall=where.clock,
    )


async def time_passes(where: Kept, seconds: float, *hosts: OldVersions) -> int:
    """All of them look every minute; how much they removed."""
    removed = 0
    for _ in range(int(seconds) // 60):
        where.clock.at_s += 60
        for host in hosts:
            removed += await one_turn(where, host)
    return removed


async def one_turn(where: Kept, host: OldVersions) -> int:
    await where.store.execute("DEL", "eg:versions:turn")
    return await host.look()


async def stored(where: Kept) -> None:
    for version in ("m@1", "m@2"):
        await where.put(version, tags={"version": version}, ttl_s=10_000)


async def left(where: Kept) -> list[bool]:
    return [await where.has("m@1"), await where.has("m@2")]


async def test_what_nobody_serves_any_more_goes_after_a_while_and_counts() -> None:
    async with kept() as where:
        await stored(where)
        await one_turn(where, looking(where, "m@1", "m@2"))
        assert await time_passes(where, 540, looking(where, "m@2")) == 0
        assert await left(where) == [True, True]
        assert await time_passes(where, 120, looking(where, "m@2")) == 1
        assert await left(where) == [False, True]
        assert await time_passes(where, 1200, looking(where, "m@2")) == 0


async def test_what_another_host_serves_stays() -> None:
    async with kept() as where:
        await stored(where)
        hosts = looking(where, "m@1"), looking(where, "m@2")
        assert await time_passes(where, 3000, *hosts) == 0
        assert await left(where) == [True, True]


async def test_a_version_that_comes_back_in_time_stays() -> None:
    async with kept() as where:
        await stored(where)
        await one_turn(where, looking(where, "m@1", "m@2"))
        for serving in (["m@2"], ["m@1", "m@2"], ["m@2"]):
            assert await time_passes(where, 540, looking(where, *serving)) == 0
        assert await left(where) == [True, True]


async def test_time_in_which_no_host_ran_does_not_count() -> None:
    """A host that has just started may not know yet which version its servers are."""
    async with kept() as where:
        await stored(where)
        await one_turn(where, looking(where, "m@1", "m@2"))
        where.clock.at_s += 3_000
        assert await time_passes(where, 540, looking(where, "m@starting")) == 0
        assert await time_passes(where, 600, looking(where, "m@1", "m@2")) == 0
        assert await left(where) == [True, True]


async def test_only_the_host_whose_turn_it_is_removes_anything() -> None:
    async with kept() as where:
        await stored(where)
        await one_turn(where, looking(where, "m@1", "m@2"))
        await time_passes(where, 540, looking(where))
        where.clock.at_s += 120
        await where.store.execute("SET", "eg:versions:turn", b"1")
        assert await looking(where).look() == 0
        assert await one_turn(where, looking(where)) == 2


async def test_a_gateway_lets_the_answers_of_its_old_version_go(tmp_path: Path) -> None:
    async with (
        running_valkey() as valkey,
        ScriptedUpstream() as upstream,
        StoreClient.open(valkey.url, deadline_s=2) as store,
    ):
        for revision in ("r1", "r2"):
            member = {"url": upstream.base_url, "name": "m1-1", "model": "m", "revision": revision}
            settings = settings_for(upstream, data_dir=tmp_path, cache={"old_versions_kept_s": 0})
            settings = Settings(**{**dict(settings), "pools": {"m1": [member]}})
            await store.execute("DEL", "eg:versions:turn")
            async with running_gateway(valkey=valkey, settings=settings) as gateway:
                await gateway.chat("What is a kettle for?")
                await gateway.idle()
                inventory = Inventory(RedisEntries(store, secret=SECRET), NoEmbedder(), secret=SECRET)
                async with asyncio.timeout(10):
                    while (await inventory.invalidate(Selector())).found != 1:  # it goes in the background
                        pass
                found = await inventory.invalidate(Selector(tags={"version": f"m1@{revision}"}))
                assert found.found == 1
