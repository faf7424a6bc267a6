"""The store client on a real cluster whose servers move slots, step down, die and hang: only what they held suffers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from gateway.store.client import StoreClient
from tests.clusters import ValkeyCluster, running_cluster
from tests.valkey import connected, eventually

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


@pytest.fixture
async def store(cluster: ValkeyCluster) -> AsyncIterator[StoreClient]:
    async with connected(cluster.url) as client:
        yield client


async def fails_fast(store: StoreClient, key: str) -> bool:
    """Whether a read of this key is refused without being sent."""
    reply = store.execute("GET", key)
    if not reply.done():
        await asyncio.wait([reply])
        return False
    return isinstance(reply.exception(), ConnectionError)


async def until_served(store: StoreClient, key: str) -> None:
    """Until the key can be read; what fails meanwhile must be of the kind that callers expect."""
    started = time.monotonic()
    while True:
        try:
            await store.execute("GET", key)
        except (ConnectionError, TimeoutError):
            assert time.monotonic() - started < FAILOVER_S, repr(store)
            await asyncio.sleep(0.02)
        else:
            return


async def test_slot_that_moves_is_followed_while_it_moves_and_after(
    cluster: ValkeyCluster, store: StoreClient
) -> None:
    """ASK while a slot is on its way, MOVED when it has arrived."""
    first, second, _ = cluster.keys_on_all("moving")
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
    key = cluster.keys_on_all("handover")[0]
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
    lost, *others = cluster.keys_on_all("killed")
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
    lost, *others = cluster.keys_on_all("gone")
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
    async with connected(cluster.url, deadline_s=0.2) as store:
        lost, *others = cluster.keys_on_all("hung")
        master, _ = cluster.holding(lost)

        master.hang()
        await asyncio.gather(*(store.execute("GET", lost) for _ in range(3)), return_exceptions=True)
        await eventually(lambda: not store.is_up)
        assert await fails_fast(store, lost)
        assert [await store.execute("GET", key, deadline=time.monotonic() + 2) for key in others] == [
            None
        ] * 2

        await until_served(store, lost)
