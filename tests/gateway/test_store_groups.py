"""What uses the stores, on a real cluster and behind real sentinels: keys, limits, the cache, control changes.

The parts here are those that a worker is made of; `test_store_cluster.py` and `test_store_sentinel.py` have the
client alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, cast

import pytest

from auth import (
    Grant,
    KeyRecord,
    KeyRef,
    KeysUnavailable,
    LevelLimits,
    Limits,
    Refusal,
    StoreDirectory,
    disabled,
    mint,
)
from auth.identity.records import RECORDS
from auth.limits.limiter import Limiter
from auth.limits.store_limits import StoreLimits
from cache import Hit
from gateway.host.control import ControlRecord, KeyChanged, follow, publish
from gateway.store.client import StoreClient
from tests.cache.test_follower import SIMILAR, TEXT, worker
from tests.clusters import GroupServer, SentinelGroup, ValkeyCluster, running_cluster, running_sentinels
from tests.running import answer_of, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import Valkey, eventually

pytestmark = pytest.mark.full

FAILOVER_S = 20.0
Group = ValkeyCluster | SentinelGroup
GROUPS: dict[str, Callable[[], Any]] = {"cluster": running_cluster, "sentinel": running_sentinels}


@pytest.fixture(scope="module", params=GROUPS)
def group(request: pytest.FixtureRequest) -> Iterator[Group]:
    """For tests that leave the servers alone."""
    with GROUPS[request.param]() as running:
        yield running


@pytest.fixture(params=GROUPS)
def mortal(request: pytest.FixtureRequest) -> Iterator[Group]:
    with GROUPS[request.param]() as running:
        yield running


def as_server(group: Group) -> Valkey:
    """For helpers that need no more of a server than its URL."""
    return cast(Valkey, group)


def master_of(group: Group, key: str) -> GroupServer:
    return group.master() if isinstance(group, SentinelGroup) else group.holding(key)[0]


@dataclass(frozen=True)
class Caller:
    """A principal, as far as limits are concerned."""

    key_id: str
    tenant: str
    limits: tuple[LevelLimits, ...]


def caller(tenant: str, **limits: Any) -> Caller:
    return Caller(f"key-{tenant}", tenant, (LevelLimits("key", "k1", Limits(**limits)),))


@dataclass(frozen=True)
class Worker:
    store: StoreClient
    directory: StoreDirectory
    limiter: Limiter

    async def new_key(self) -> KeyRecord:
        record, _ = mint(tenant="acme", service="web", name="test", limits=Limits(), created_at_s=time.time())
        assert (await self.directory.add(record)).is_replicated
        return record


@asynccontextmanager
async def working(group: Group, *, deadline_s: float = 2.0) -> AsyncIterator[Worker]:
    async with StoreClient.open(group.url, deadline_s=deadline_s) as store:
        await eventually(lambda: store.is_up)
        async with Limiter(StoreLimits(store), live_workers=lambda: 1) as limiter:
            yield Worker(store, StoreDirectory(store), limiter)


async def test_limits_of_many_tenants_hold_over_workers(group: Group) -> None:
    """On a cluster the tenants' buckets lie on different servers."""
    tenants = [f"tenant-{number}" for number in range(12)]
    async with working(group) as one, working(group) as other:
        for tenant in tenants:
            who = caller(tenant, requests_per_min=6, tokens_per_min=1000, concurrent=10)
            answers = await asyncio.gather(
                *(each.limiter.take(who) for each in (one, other) for _ in range(5))
            )

            assert sum(isinstance(answer, Grant) and not answer.is_local for answer in answers) == 6
            assert sum(isinstance(answer, Refusal) for answer in answers) == 4


async def test_key_that_one_worker_adds_and_disables_another_finds_so(group: Group) -> None:
    async with working(group) as one, working(group) as other:
        record = await one.new_key()
        found = await other.directory.find(record.key_id)
        assert found is not None
        assert found.key.disabled_at_s is None

        ref = KeyRef(record.key_id)
        written = await one.directory.change(ref, lambda key: disabled(key, at_s=1.0))
        assert written.is_replicated
        found = await other.directory.find(record.key_id)
        assert found is not None
        assert found.key.disabled_at_s == 1.0


async def test_answers_and_flushes_of_one_worker_reach_another(group: Group) -> None:
    """The change streams lie on all servers of a cluster."""
    server = as_server(group)
    async with worker(server) as one, worker(server) as other:
        await one.teach(TEXT)
        await eventually(lambda: len(other.spaces) == 1)
        exact, similar = await other.ask(TEXT), await other.ask(SIMILAR)
        assert isinstance(exact, Hit)
        assert isinstance(similar, Hit)
        assert (exact.tier, similar.tier) == ("exact", "semantic")

        await one.cache.flush("team-a")
        await eventually(lambda: len(other.spaces) == 0)
        assert not isinstance(await other.ask(TEXT), Hit)


async def test_control_changes_are_heard_at_once(group: Group) -> None:
    heard: list[ControlRecord] = []

    async def hear(_: str, record: ControlRecord) -> None:
        heard.append(record)

    async with (
        StoreClient.open(group.url, silence_s=30) as follower,
        StoreClient.open(group.url, deadline_s=2) as store,
    ):
        following = asyncio.create_task(follow(follower, hear))
        # It hears what comes after its start, of which nothing tells: so say it until it is heard.
        deadline = time.monotonic() + 10
        while not heard:
            assert time.monotonic() < deadline
            await publish(store, KeyChanged("first"))
            await asyncio.sleep(0.05)
        started = time.monotonic()
        await publish(store, KeyChanged("second"))
        await eventually(lambda: KeyChanged("second") in heard)
        assert time.monotonic() - started < 1
        following.cancel()
        await asyncio.wait([following])


async def test_death_of_the_master_is_lived_through_and_what_was_revoked_stays_so(mortal: Group) -> None:
    """Meanwhile limits are the worker's own, keys are unknown, and no call waits longer than its deadline."""
    master = master_of(mortal, RECORDS)
    tenant = next(
        name for name in map(str, itertools.count()) if master_of(mortal, f"{{t:{name}}}") is master
    )
    who = caller(tenant, requests_per_s=5_000, burst=100_000)
    async with working(mortal, deadline_s=0.5) as one:
        record = await one.new_key()
        revoked = await one.directory.change(KeyRef(record.key_id), lambda key: disabled(key, at_s=1.0))
        assert revoked.is_replicated

        master.kill()
        local, unknown, longest_s = 0, 0, 0.0
        killed_s = time.monotonic()
        while local == 0 or not one.store.is_up:
            started_s = time.monotonic()
            assert started_s < killed_s + FAILOVER_S, repr(one.store)
            grant = await one.limiter.take(who)
            assert isinstance(grant, Grant)
            local += grant.is_local
            with contextlib.suppress(KeysUnavailable):
                unknown += await one.directory.find(record.key_id) is None
            longest_s = max(longest_s, time.monotonic() - started_s)
            await asyncio.sleep(0.01)

        grant, found = await one.limiter.take(who), await one.directory.find(record.key_id)
        assert isinstance(grant, Grant)
        assert not grant.is_local
        assert found is not None
        assert found.key.disabled_at_s == 1.0
        assert unknown == 0
        assert longest_s < 2  # two deadlines, on a busy machine


async def test_gateway_serves_from_a_group(group: Group) -> None:
    """A miss, a hit, a limit and a disabled key, with both roles there."""
    async with ScriptedUpstream() as upstream, running_gateway(upstream, valkey=as_server(group)) as gateway:
        question = f"What is a kettle for, {type(group).__name__}?"
        first = await gateway.chat(question)
        assert (first.status_code, first.headers["x-cache"]) == (200, "MISS")
        await gateway.idle()
        second = await gateway.chat(question)
        assert second.headers["x-cache"] == "HIT-EXACT"
        assert answer_of(first) == answer_of(second)

        limited = await gateway.new_key(limits=Limits(requests_per_min=1))
        assert (await gateway.chat(question, key=limited)).status_code == 200
        assert (await gateway.chat(question, key=limited)).status_code == 429

        unused = await gateway.new_key()
        await gateway.disable(unused)
        assert (await gateway.chat(question, key=unused)).status_code == 401
