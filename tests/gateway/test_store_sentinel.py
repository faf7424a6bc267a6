"""The store client behind real sentinels: it follows the master, and fails fast while there is none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.store.client import StoreClient
from tests.clusters import GroupServer, SentinelGroup, running_sentinels
from tests.valkey import connected, eventually

pytestmark = pytest.mark.full

FAILOVER_S = 20.0


@pytest.fixture(scope="module")
def shared() -> Iterator[SentinelGroup]:
    """For tests that leave the servers alone."""
    with running_sentinels() as group:
        yield group


@pytest.fixture
def group() -> Iterator[SentinelGroup]:
    """One of its own: sentinels take ten seconds and more to make a replica of a master that came back."""
    with running_sentinels() as group:
        yield group


async def until_written(store: StoreClient, key: str) -> None:
    """Until the key can be written; what fails meanwhile must be of the kind that callers expect."""
    started = time.monotonic()
    while True:
        try:
            await store.execute("SET", key, "late")
        except (ConnectionError, TimeoutError):
            assert time.monotonic() - started < FAILOVER_S, repr(store)
            await asyncio.sleep(0.02)
        else:
            return


def run_id(server: GroupServer) -> str:
    return server.facts("INFO", "server")["run_id"]


async def test_master_is_entered_and_its_replica_confirms(shared: SentinelGroup) -> None:
    async with connected(shared.url) as store:
        await store.execute("SET", "key", "value")

        assert await store.wait_replicas(1, 2_000, like_key="key") == 1
        assert store.state.server_id == run_id(shared.master())
        assert shared.replica().ask("GET", "key") == b"value"


async def test_name_that_no_sentinel_knows_is_told(shared: SentinelGroup) -> None:
    url = shared.url.replace("mymaster", "nobody")
    async with StoreClient.open(url) as store:
        assert not store.is_up
        assert "no sentinel tells the master 'nobody'" in str(store.state.reason)


async def test_replica_under_the_url_of_a_single_server_is_down(shared: SentinelGroup) -> None:
    async with StoreClient.open(f"redis://{shared.replica().endpoint}") as store:
        assert not store.is_up
        assert "is a replica" in str(store.state.reason)


async def test_what_a_replica_confirmed_survives_the_masters_death(group: SentinelGroup) -> None:
    async with connected(group.url) as store:
        await store.execute("SET", "revoked", "for good")
        assert await store.wait_replicas(1, 2_000, like_key="revoked") == 1
        promoted = run_id(group.replica())

        group.master().kill()
        await eventually(lambda: not store.is_up)
        refused = store.execute("GET", "revoked")
        assert refused.done()  # at once
        assert isinstance(refused.exception(), ConnectionError)

        await until_written(store, "another")
        assert await store.execute("GET", "revoked") == b"for good"
        assert store.state.server_id == promoted


async def test_master_that_hangs_is_left_for_the_new_one(group: SentinelGroup) -> None:
    """By a client that asks nothing, too: nothing is late there, but the sentinels tell."""
    async with connected(group.url, deadline_s=0.2) as busy, connected(group.url) as idle:
        promoted = run_id(group.replica())

        group.master().hang()
        await until_written(busy, "key")

        await eventually(lambda: idle.state.server_id == promoted, within_s=FAILOVER_S)
        assert idle.state.timeouts == 0
        assert busy.state.server_id == promoted


async def test_orderly_failover_is_followed_and_loses_nothing(group: SentinelGroup) -> None:
    async with connected(group.url) as store:
        promoted = run_id(group.replica())
        await store.execute("SET", "key", "kept")
        assert await store.wait_replicas(1, 2_000, like_key="key") == 1

        group.sentinels[0].ask("SENTINEL", "FAILOVER", "mymaster")
        await eventually(lambda: store.state.server_id == promoted, within_s=FAILOVER_S)

        await until_written(store, "another")
        assert await store.execute("GET", "key") == b"kept"


async def test_sentinels_that_are_gone_are_passed_over_and_a_master_is_kept_without_any(
    group: SentinelGroup,
) -> None:
    first, second, third = group.sentinels
    first.kill()
    second.hang()
    async with StoreClient.open(group.url, deadline_s=2.0) as store:
        await eventually(lambda: store.is_up)
        third.kill()
        for _ in range(8):  # longer than one round of asking
            assert await store.execute("PING") == b"PONG"
            await asyncio.sleep(0.2)


async def test_master_and_sentinels_have_logins_of_their_own(tmp_path: Path) -> None:
    master = GroupServer(tmp_path / "master", "--requirepass", "for-master", "--save", "")
    conf = tmp_path / "sentinel.conf"
    conf.write_text(
        f"sentinel monitor mymaster 127.0.0.1 {master.port} 1\nsentinel auth-pass mymaster for-master\n"
    )
    sentinel = GroupServer(tmp_path / "sentinel", str(conf), "--sentinel", "--requirepass", "for-sentinel")
    url = f"redis+sentinel://:for-master@{sentinel.endpoint}/mymaster?sentinel_password="
    try:
        master.start()
        sentinel.start()
        async with connected(url + "for-sentinel") as store:
            assert await store.execute("PING") == b"PONG"
        async with StoreClient.open(url + "hunter2") as store:
            assert not store.is_up
            assert "WRONGPASS" in str(store.state.reason)
            assert "hunter2" not in f"{store!r} {store.state}"
    finally:
        master.kill()
        sentinel.kill()
