"""The shared buckets on a real store: races, clocks, expiry, and scripts that are forgotten."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auth import Budget, LevelLimits, Limits, StoreLimits
from auth.limits.levels import Ask, Buckets
from gateway.store.client import StoreClient
from tests.contracts.limit_stores import key, left, per_minute, settled
from tests.valkey import running_valkey


@given(rate=st.integers(50, 2_000), burst=st.integers(1, 100))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_four_racing_clients_never_pass_more_than_rate_and_burst(rate: int, burst: int) -> None:
    async def hammer(url: str, until_s: float) -> int:
        async with StoreClient.open(url, deadline_s=5) as store:
            limits, passed = StoreLimits(store), 0
            buckets = key(Limits(requests_per_s=rate, burst=burst))
            while time.monotonic() < until_s:
                taken = await asyncio.gather(*(limits.take(buckets, Ask()) for _ in range(20)))
                passed += sum(each.is_taken for each in taken)
            return passed

    async def scenario() -> None:
        async with running_valkey() as valkey:
            started = time.monotonic()
            passed = sum(await asyncio.gather(*(hammer(valkey.url, started + 0.25) for _ in range(4))))
            most = burst + rate * (time.monotonic() - started)
            assert min(burst, most) <= passed <= most + 0.01

    asyncio.run(scenario())


@asynccontextmanager
async def real() -> AsyncIterator[tuple[StoreLimits, StoreClient]]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        yield StoreLimits(store), store


async def test_everything_expires_and_lies_in_the_slot_of_its_tenant() -> None:
    limits_of_all_kinds = Limits(
        requests_per_s=10, requests_per_min=10, tokens_per_min=100, concurrent=2,
        budget=Budget(500, "money", "month"),
    )  # fmt: skip
    buckets = Buckets.of("acme", [LevelLimits("key", "k", limits_of_all_kinds)])
    async with real() as (limits, store):
        ask = Ask(tokens=10, cost=0.5, lease="a", at_s=time.time())
        taken = await limits.take(buckets, ask)
        await settled(limits, buckets, ask, taken, tokens=50, cost=1)
        await limits.renew({buckets.leased[0]: ["a"]})
        keys = await store.execute("KEYS", "*")

        assert len(keys) == 5
        for name in keys:
            assert name.startswith(b"eg:{t:acme}:l:key:k:")
            assert await store.execute("PTTL", name) > 0


async def test_settlement_after_everything_expired_leaves_nothing_behind() -> None:
    buckets = key(Limits(tokens_per_min=100, concurrent=1, budget=Budget(500, "tokens", "day")))
    async with real() as (limits, store):
        long_ago_s = time.time() - 10 * 86_400
        ask = Ask(tokens=10, lease="a", at_s=long_ago_s)
        for used in (0, 10, 50):
            await limits.settle(buckets, ask, taken_at_us=long_ago_s * 1e6, tokens=used, cost=0)

        assert await store.execute("KEYS", "*:2*") == []
        assert await store.execute("KEYS", "*:co") == []
        assert await left(limits, buckets) == [500, pytest.approx(60, abs=1), 1]  # 40 beyond the reservation


async def test_refusal_does_not_renew_the_bucket() -> None:
    buckets = key(Limits(requests_per_s=10, burst=1))
    async with real() as (limits, store):
        await limits.take(buckets, Ask())
        until_full_ms = await store.execute("PTTL", buckets.all[0].key)
        assert 0 < until_full_ms <= 100

        assert not (await limits.take(buckets, Ask())).is_taken
        assert await store.execute("PTTL", buckets.all[0].key) <= until_full_ms


async def test_clock_set_back_does_not_lock_anybody_out() -> None:
    """As after ten hours of a clock that ran ahead: the bucket is empty at worst, tokens an hour's worth below."""
    buckets = key(Limits(requests_per_s=10, burst=5, tokens_per_min=100))
    async with real() as (limits, store):
        ahead_us = (time.time() + 36_000) * 1e6
        for bucket in buckets.all:
            await store.execute("SET", bucket.key, struct.pack("<dd", ahead_us, ahead_us))

        requests, tokens_ = (await limits.take(buckets, Ask(tokens=100))).readings

        assert requests.wait_s == pytest.approx(0.1, abs=0.001)
        assert tokens_.wait_s == pytest.approx(3_600)


async def test_flushed_scripts_are_loaded_again() -> None:
    async with real() as (limits, store):
        await limits.take(per_minute(2), Ask())
        await store.execute("SCRIPT", "FLUSH")

        assert (await limits.take(per_minute(2), Ask())).is_taken
        assert not (await limits.take(per_minute(2), Ask())).is_taken
