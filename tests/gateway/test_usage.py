"""Usage: counted by workers, once however often it is sent, and read back by key, service and tenant over time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from gateway.store.client import StoreClient
from gateway.usage.recorder import UsageRecorder
from gateway.usage.store import Bucket, Counts, Level, Tally, UsageStore
from tests.valkey import Valkey, running_valkey

NOON_S = 1_795_953_600  # 2026-11-29T12:00:00Z
MINUTE = NOON_S // 60
A_HIT = Counts(requests=1, hits_exact=1, saved_input_tokens=10, saved_output_tokens=20)


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as valkey:
        yield valkey


@pytest.fixture
async def store(valkey: Valkey) -> AsyncIterator[UsageStore]:
    async with StoreClient.open(valkey.url, deadline_s=5.0) as client:
        yield UsageStore(client)


async def read(
    store: UsageStore, level: Level, name: str, bucket: Bucket, *, hours: float = 1
) -> list[tuple[int, Counts]]:
    return await store.read("acme", level, name, bucket, start_s=NOON_S, end_s=NOON_S + int(hours * 3600))


async def test_a_request_counts_for_its_key_service_and_tenant_in_every_bucket(store: UsageStore) -> None:
    counts = Counts(requests=1, input_tokens=3, output_tokens=4, cost=0.25)
    await store.add("acme", {Tally("web", "key1", MINUTE + 1): counts}, sender="s", number=1)
    for level, name in (("key", "key1"), ("service", "web"), ("tenant", "acme")):
        assert await read(store, level, name, "minute") == [(NOON_S + 60, counts)]  # type: ignore[arg-type]
        assert await read(store, level, name, "hour") == [(NOON_S, counts)]  # type: ignore[arg-type]
    assert await store.read("acme", "key", "key1", "day", start_s=NOON_S - 43_200, end_s=NOON_S) == [
        (NOON_S - 43_200, counts)
    ]
    assert await read(store, "service", "another", "hour") == []


async def test_keys_of_a_service_add_up(store: UsageStore) -> None:
    tallies = {Tally("web", f"key{n}", MINUTE): Counts(requests=n) for n in (1, 2)}
    await store.add("acme", tallies, sender="s", number=1)
    await store.add("acme", {Tally("api", "key3", MINUTE): Counts(requests=4)}, sender="s", number=2)
    assert await read(store, "service", "web", "hour") == [(NOON_S, Counts(requests=3))]
    assert await read(store, "tenant", "acme", "hour") == [(NOON_S, Counts(requests=7))]


async def test_a_batch_counts_once_however_often_it_is_sent(store: UsageStore) -> None:
    batch = {Tally("web", "key1", MINUTE): Counts(requests=1)}
    for number in (1, 1, 2, 1):
        await store.add("acme", batch, sender="worker", number=number)
    await store.add("acme", batch, sender="another", number=1)
    assert await read(store, "tenant", "acme", "hour") == [(NOON_S, Counts(requests=3))]


async def test_money_is_kept_to_a_small_fraction(store: UsageStore) -> None:
    for number in range(1, 11):
        await store.add(
            "acme", {Tally("web", "key1", MINUTE): Counts(cost=0.000_000_1)}, sender="s", number=number
        )
    ((_, counts),) = await read(store, "key", "key1", "hour")
    assert counts.cost == pytest.approx(0.000_001)


async def test_every_counter_goes_when_its_time_is_over(valkey: Valkey, store: UsageStore) -> None:
    await store.add("acme", {Tally("web", "key1", MINUTE): A_HIT}, sender="s", number=1)
    async with StoreClient.open(valkey.url, deadline_s=5.0) as client:
        names = await client.execute("KEYS", "*")
        assert len(names) == 10
        assert all([await client.execute("TTL", name) > 0 for name in names])


async def test_a_recorder_adds_up_and_writes_when_it_ends(store: UsageStore) -> None:
    async with UsageRecorder.open(store, every_s=60) as recorder:
        recorder._wall = lambda: float(NOON_S)
        for _ in range(3):
            recorder.note(
                tenant="acme", service="web", key_id="key1", counts=Counts(requests=1, hits_exact=1)
            )
        assert await read(store, "key", "key1", "hour") == []
    assert await read(store, "key", "key1", "hour") == [(NOON_S, Counts(requests=3, hits_exact=3))]


async def test_nothing_is_lost_or_counted_twice_while_the_store_is_away(
    valkey: Valkey, store: UsageStore
) -> None:
    recorder = UsageRecorder(store, wall=lambda: float(NOON_S))
    recorder.note(tenant="acme", service="web", key_id="key1", counts=Counts(requests=1))
    await recorder.write()
    await valkey.kill()
    recorder.note(tenant="acme", service="web", key_id="key1", counts=Counts(requests=2))
    await recorder.write()
    recorder.note(tenant="acme", service="web", key_id="key1", counts=Counts(requests=4))
    await recorder.write()
    await valkey.start()
    async with asyncio.timeout(10):
        while recorder.is_behind:
            await recorder.write()
            await asyncio.sleep(0.02)  # the client comes back by itself
    assert await read(store, "key", "key1", "hour") == [(NOON_S, Counts(requests=7))]
