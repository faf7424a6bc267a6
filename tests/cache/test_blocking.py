"""What was reported wrong, in a store of several servers: when it is safe, and that it outlives a failover."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cache.evidence.blocked import encode
from cache.evidence.blocking import BlockedPairs
from gateway.store.client import StoreClient
from tests.cache.parts import real_store
from tests.cache.replicas import master_and_replica

PAIR = (1, 2)


@pytest.fixture
async def store() -> AsyncIterator[StoreClient]:
    async with real_store() as (_, client):
        yield client


class Server:
    """Which one answers, as a test says."""

    def __init__(self) -> None:
        self.name: str | None = "first"

    def __call__(self) -> str | None:
        return self.name


async def test_it_is_safe_where_there_is_no_replica_to_wait_for(store: StoreClient) -> None:
    assert await BlockedPairs(store).add(PAIR)


async def test_it_is_safe_when_a_replica_has_it_and_in_force_when_none_has() -> None:
    with master_and_replica() as (master, replica):
        async with StoreClient.open(f"redis://{master.endpoint}", deadline_s=5) as store:
            blocked = BlockedPairs(store)
            assert await blocked.add(PAIR)
            replica.hang()
            assert not await blocked.add((3, 4))
            assert blocked.known.is_pair(3, 4)


async def test_what_a_failover_lost_is_added_again(store: StoreClient) -> None:
    server = Server()
    one, other = BlockedPairs(store, server_id=server), BlockedPairs(store)
    await one.follow()
    await one.add(PAIR)
    await store.execute("FLUSHALL")
    await one.follow()  # the same server: nothing was lost that it would know of
    await other.follow()
    assert not other.known.is_pair(*PAIR)

    server.name = None
    await one.follow()
    server.name = "second"
    await one.follow()
    await other.follow()
    assert other.known.is_pair(*PAIR)


async def test_another_servers_stream_is_read_from_its_beginning(store: StoreClient) -> None:
    """Its clock may be behind: what it holds can have lower numbers than what was read from the last one."""
    server = Server()
    one = BlockedPairs(store, server_id=server)
    await one.add(PAIR)
    await one.follow()
    await store.execute("FLUSHALL")
    await store.execute("XADD", "eg:{evidence}:blocked", "1-1", "e", encode(5, 6))
    server.name = "second"
    await one.follow()
    assert one.known.is_pair(5, 6)
