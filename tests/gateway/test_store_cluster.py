"""The store client on a real cluster that works: what belongs where, and what is read in parts."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterator

import pytest
from redis.exceptions import ResponseError

from gateway.store.client import StoreClient
from tests.clusters import ValkeyCluster, running_cluster
from tests.valkey import connected

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster() -> Iterator[ValkeyCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
async def store(cluster: ValkeyCluster) -> AsyncIterator[StoreClient]:
    async with connected(cluster.url) as client:
        yield client


# --- where commands go


async def test_commands_reach_the_servers_of_their_keys(cluster: ValkeyCluster, store: StoreClient) -> None:
    keys = cluster.keys_on_all("spread")
    await asyncio.gather(*(store.execute("SET", key, key) for key in keys))

    assert [await store.execute("GET", key) for key in keys] == [key.encode() for key in keys]
    assert all(cluster.holding(key)[0].ask("EXISTS", key) == 1 for key in keys)


async def test_commands_of_one_tick_leave_in_one_write_for_each_server(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    keys = cluster.keys_on_all("tick")

    before = await store.execute_everywhere("INFO", "stats")
    await asyncio.gather(*(store.execute("GET", key) for key in keys * 50))
    after = await store.execute_everywhere("INFO", "stats")

    reads = [reads_in(late) - reads_in(early) for early, late in zip(before, after, strict=True)]
    assert max(reads) < 10  # of fifty GETs: theirs, INFO's, and what replicas acknowledge meanwhile


def reads_in(told: bytes) -> int:
    facts = dict(line.split(b":", 1) for line in told.splitlines() if b":" in line)
    return int(facts[b"total_reads_processed"])


async def test_script_runs_on_each_server_by_its_hash_alone(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    source = "return {KEYS[1], redis.call('INCRBY', KEYS[1], ARGV[1])}"
    for key in cluster.keys_on_all("script"):
        for total in (5, 10):
            assert await store.script(source, keys=[key], args=[5]) == [key.encode(), total]


async def test_mget_over_several_servers_keeps_the_order(cluster: ValkeyCluster, store: StoreClient) -> None:
    keys = cluster.keys_on_all("mget")
    await asyncio.gather(*(store.execute("SET", key, key) for key in keys))

    mixed = [keys[2], keys[0], "mget:absent", keys[1], keys[0]]
    assert await store.execute("MGET", *mixed) == [
        None if key == "mget:absent" else key.encode() for key in mixed
    ]


async def test_keyless_command_goes_to_one_server_and_everywhere_to_all(store: StoreClient) -> None:
    assert await store.execute("PING") == b"PONG"
    policies = await store.execute_everywhere("CONFIG", "GET", "maxmemory-policy")
    assert policies == [[b"maxmemory-policy", b"noeviction"]] * 3


async def test_command_of_unknown_form_is_refused_at_once(store: StoreClient) -> None:
    with pytest.raises(ValueError, match="SORT"):
        store.execute("SORT", "key")


async def test_keys_of_a_script_in_several_slots_are_the_callers_mistake(store: StoreClient) -> None:
    with pytest.raises(ResponseError, match="CROSSSLOT"):
        await store.script("return 1", keys=["{a}", "{b}"], args=[])
    assert store.is_up


async def test_cluster_under_the_url_of_a_single_server_says_what_is_wrong(cluster: ValkeyCluster) -> None:
    key = cluster.keys_on_all("single")[0]
    master, _ = cluster.holding(key)
    other = next(server for server in cluster.masters() if server is not master)

    async with StoreClient.open(f"redis://{other.endpoint}", deadline_s=2.0) as store:
        with pytest.raises(ResponseError, match=r"redis\+cluster://"):
            await store.execute("GET", key)


# --- streams


async def test_blocking_read_of_streams_on_several_servers_hears_of_each(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    streams = cluster.keys_on_all("streams")
    places = dict.fromkeys(streams, "0-0")
    for stream in streams:
        reading = store.execute(
            *("XREAD", "COUNT", 10, "BLOCK", 10_000, "STREAMS"),
            *places,
            *places.values(),
            deadline=time.monotonic() + 20,
        )
        places[stream] = (await store.execute("XADD", stream, "*", "c", stream)).decode()

        assert await reading == [[stream.encode(), [[places[stream].encode(), [b"c", stream.encode()]]]]]


async def test_read_of_streams_without_news_is_empty_when_its_block_ends(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    streams = cluster.keys_on_all("silent")
    started = time.monotonic()

    reply = await store.execute("XREAD", "BLOCK", 300, "STREAMS", *streams, *["0-0"] * 3)

    assert reply is None
    assert 0.3 <= time.monotonic() - started < 2


async def test_closing_fails_what_waits(cluster: ValkeyCluster) -> None:
    streams = cluster.keys_on_all("closing")
    async with connected(cluster.url) as store:
        waiting = [
            store.execute("XREAD", "BLOCK", 0, "STREAMS", *each, *["0-0"] * len(each), deadline=math.inf)
            for each in (streams, streams[:1])
        ]
        await asyncio.sleep(0)

    for each in waiting:
        with pytest.raises(ConnectionError):
            await each


async def test_cluster_of_which_one_server_is_known_is_found_whole(cluster: ValkeyCluster) -> None:
    keys = cluster.keys_on_all("seed")
    seed = cluster.holding(keys[0])[1]  # a replica will do

    async with StoreClient.open(f"redis+cluster://{seed.endpoint}", deadline_s=2.0) as store:
        assert store.is_up
        assert [await store.execute("GET", key) for key in keys] == [None] * 3


async def test_cluster_that_is_absent_at_the_start_is_just_down() -> None:
    async with StoreClient.open("redis+cluster://127.0.0.1:1", name="cache store") as store:
        assert not store.is_up
        assert "Connect" in str(store.state.reason)
        with pytest.raises(ConnectionError, match="No server"):
            await store.execute("GET", "key")
        with pytest.raises(ConnectionError, match="cache store is down"):
            await store.execute("PING")
        with pytest.raises(ConnectionError):
            await store.execute_everywhere("PING")
