"""The store client on a real cluster: what belongs where, and what goes on while servers die, hang and move."""

from __future__ import annotations

import asyncio
import itertools
import math
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ResponseError

from gateway.store import StoreClient
from tests.clusters import ValkeyCluster, running_cluster
from tests.valkey import eventually

pytestmark = pytest.mark.full

FAILOVER_S = 20.0


@pytest.fixture(scope="module")
def group() -> Iterator[ValkeyCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(group: ValkeyCluster) -> Iterator[ValkeyCluster]:
    yield group
    group.heal()


@asynccontextmanager
async def connected(cluster: ValkeyCluster, *, deadline_s: float = 2.0) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(cluster.url, deadline_s=deadline_s) as client:
        await eventually(lambda: client.is_up)
        yield client


@pytest.fixture
async def store(cluster: ValkeyCluster) -> AsyncIterator[StoreClient]:
    async with connected(cluster) as client:
        yield client


def keys_on_all(cluster: ValkeyCluster, name: str) -> list[str]:
    """A key for each master."""
    found: dict[int, str] = {}
    for number in itertools.count():
        key = f"{name}:{number}"
        found.setdefault(cluster.holding(key)[0].port, key)
        if len(found) == 3:
            return list(found.values())
    raise AssertionError


async def fails_fast(store: StoreClient, key: str) -> bool:
    """Whether a read of this key is refused without being sent."""
    reply = store.execute("GET", key)
    if not reply.done():
        await asyncio.wait([reply])
        return False
    return isinstance(reply.exception(), ConnectionError)


async def until_served(store: StoreClient, key: str) -> float:
    """How long it takes until the key can be read; what fails meanwhile must be of the kind that callers expect."""
    started = time.monotonic()
    while True:
        try:
            await store.execute("GET", key)
        except (ConnectionError, TimeoutError):
            assert time.monotonic() - started < FAILOVER_S, repr(store)
            await asyncio.sleep(0.02)
        else:
            return time.monotonic() - started


# --- where commands go


async def test_commands_reach_the_servers_of_their_keys(cluster: ValkeyCluster, store: StoreClient) -> None:
    keys = keys_on_all(cluster, "spread")
    await asyncio.gather(*(store.execute("SET", key, key) for key in keys))

    assert [await store.execute("GET", key) for key in keys] == [key.encode() for key in keys]
    assert all(cluster.holding(key)[0].ask("EXISTS", key) == 1 for key in keys)


async def test_commands_of_one_tick_leave_in_one_write_for_each_server(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    keys = keys_on_all(cluster, "tick")

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
    for key in keys_on_all(cluster, "script"):
        for total in (5, 10):
            assert await store.script(source, keys=[key], args=[5]) == [key.encode(), total]


async def test_mget_over_several_servers_keeps_the_order(cluster: ValkeyCluster, store: StoreClient) -> None:
    keys = keys_on_all(cluster, "mget")
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
    key = keys_on_all(cluster, "single")[0]
    master, _ = cluster.holding(key)
    other = next(server for server in cluster.masters() if server is not master)

    async with StoreClient.open(f"redis://{other.endpoint}", deadline_s=2.0) as store:
        with pytest.raises(ResponseError, match=r"redis\+cluster://"):
            await store.execute("GET", key)


# --- streams


async def test_blocking_read_of_streams_on_several_servers_hears_of_each(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    streams = keys_on_all(cluster, "streams")
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
    streams = keys_on_all(cluster, "silent")
    started = time.monotonic()

    reply = await store.execute("XREAD", "BLOCK", 300, "STREAMS", *streams, *["0-0"] * 3)

    assert reply is None
    assert 0.3 <= time.monotonic() - started < 2


async def test_closing_fails_what_waits(cluster: ValkeyCluster) -> None:
    streams = keys_on_all(cluster, "closing")
    async with connected(cluster) as store:
        waiting = [
            store.execute("XREAD", "BLOCK", 0, "STREAMS", *each, *["0-0"] * len(each), deadline=math.inf)
            for each in (streams, streams[:1])
        ]
        await asyncio.sleep(0)

    for each in waiting:
        with pytest.raises(ConnectionError):
            await each


# --- servers that move, die, hang


async def test_slot_that_moves_is_followed_while_it_moves_and_after(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    """ASK while a slot is on its way, MOVED when it has arrived."""
    first, second, _ = keys_on_all(cluster, "moving")
    (source, _), (target, _) = cluster.holding(first), cluster.holding(second)
    slot = source.ask("CLUSTER", "KEYSLOT", first)
    stays = f"{{{first}}}:stays"
    await store.execute("SET", stays, "old")
    target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.ask("CLUSTER", "MYID"))
    source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.ask("CLUSTER", "MYID"))

    await store.execute("SET", first, "new")
    assert await store.script("return redis.call('GET', KEYS[1])", keys=[first], args=[]) == b"new"
    assert await store.execute("GET", stays) == b"old"

    source.ask("MIGRATE", "127.0.0.1", target.port, stays, 0, 2000)
    for server in (target, source):
        server.ask("CLUSTER", "SETSLOT", slot, "NODE", target.ask("CLUSTER", "MYID"))
    assert [await store.execute("GET", key) for key in (first, stays)] == [b"new", b"old"]
    assert target.ask("EXISTS", first) == 1


async def test_master_that_steps_down_is_followed(cluster: ValkeyCluster, store: StoreClient) -> None:
    key = keys_on_all(cluster, "handover")[0]
    _, replica = cluster.holding(key)
    await store.execute("SET", key, "kept")
    before = store.state.server_id

    replica.ask("CLUSTER", "FAILOVER")
    await eventually(lambda: replica.role() == "master", within_s=FAILOVER_S)

    await until_served(store, key)
    assert await store.execute("GET", key) == b"kept"
    await eventually(lambda: store.is_up and store.state.server_id != before, within_s=FAILOVER_S)


async def test_killed_master_takes_down_only_its_slots_until_its_replica_has_taken_over(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    lost, *others = keys_on_all(cluster, "killed")
    await store.execute("SET", lost, "kept")
    assert await store.wait_replicas(1, 2_000, like_key=lost) == 1
    before = store.state.server_id

    cluster.holding(lost)[0].kill()
    await eventually(lambda: not store.is_up)
    assert await fails_fast(store, lost)
    assert str(store.state.reason).startswith("127.0.0.1:")
    for key in others:
        assert await store.execute("SET", key, "goes on") == b"OK"
    with pytest.raises(ConnectionError):
        await store.execute("PING")  # about the whole

    await until_served(store, lost)
    assert await store.execute("GET", lost) == b"kept"
    await eventually(lambda: store.is_up, within_s=FAILOVER_S)
    assert store.state.server_id != before


async def test_part_that_is_gone_altogether_comes_back_with_its_server(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    lost, *others = keys_on_all(cluster, "gone")
    await store.execute("SET", lost, "kept")
    master, replica = cluster.holding(lost)
    replica.kill()
    master.kill()
    await eventually(lambda: not store.is_up)

    for key in others:
        assert await store.execute("XADD", key, "1-0", "c", key) == b"1-0"
    read = await store.execute("XREAD", "STREAMS", lost, *others, *["0-0"] * 3)
    assert {stream for stream, _ in read} == {key.encode() for key in others}
    with pytest.raises(ConnectionError):
        await store.execute("MGET", lost, *others)

    master.start()
    await until_served(store, lost)
    assert await store.execute("GET", lost) == b"kept"


async def test_hung_master_is_left_for_its_replica_and_delays_no_other(cluster: ValkeyCluster) -> None:
    async with connected(cluster, deadline_s=0.2) as store:
        lost, *others = keys_on_all(cluster, "hung")
        master, _ = cluster.holding(lost)

        master.hang()
        await asyncio.gather(*(store.execute("GET", lost) for _ in range(3)), return_exceptions=True)
        await eventually(lambda: not store.is_up)
        assert await fails_fast(store, lost)
        assert [await store.execute("GET", key, deadline=time.monotonic() + 2) for key in others] == [
            None
        ] * 2

        await until_served(store, lost)


async def test_cluster_of_which_one_server_is_known_is_found_whole(cluster: ValkeyCluster) -> None:
    keys = keys_on_all(cluster, "seed")
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
