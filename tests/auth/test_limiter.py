"""The limiter: the shared bucket while there is a store, this worker's share while there is none."""

from __future__ import annotations

import asyncio
import gc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import Limiter, Principal, RequestLimit, StoreLimits
from auth.limits.buckets import LocalBuckets
from auth.testing import MemoryLimits
from gateway.store import StoreClient
from tests.valkey import running_valkey


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def principal(
    *, tenant: str = "acme", key_id: str = "abcdefghijkl", rate: float = 0.01, burst: int = 8
) -> Principal:
    return Principal(key_id=key_id, tenant=tenant, service="web", limit=RequestLimit(rate, burst))


async def test_shared_bucket_decides_while_the_store_answers() -> None:
    limiter = Limiter(MemoryLimits(), live_workers=lambda: 4)

    decisions = [await limiter.take(principal()) for _ in range(9)]

    assert [decision.is_allowed for decision in decisions] == [True] * 8 + [False]
    assert not any(decision.is_local for decision in decisions)


@pytest.mark.parametrize(("workers", "share"), [(0, 8), (1, 8), (4, 2), (100, 1)])
async def test_worker_allows_its_share_while_the_store_is_down(workers: int, share: int) -> None:
    limits = MemoryLimits()
    limits.is_down = True
    limiter = Limiter(limits, live_workers=lambda: workers)

    decisions = [await limiter.take(principal()) for _ in range(10)]

    assert sum(decision.is_allowed for decision in decisions) == share
    assert all(decision.is_local and decision.limit == share for decision in decisions)


async def test_share_refills_at_the_share_of_the_rate() -> None:
    limits, clock = MemoryLimits(), Clock()
    limits.is_down = True
    limiter = Limiter(limits, live_workers=lambda: 4, now=clock)
    caller = principal(rate=8, burst=4)
    await limiter.take(caller)
    refused = await limiter.take(caller)
    assert refused.retry_after_s == pytest.approx(0.5)

    clock.now_s += 0.5
    assert (await limiter.take(caller)).is_allowed


async def test_keys_and_tenants_have_buckets_of_their_own() -> None:
    limiter = Limiter(MemoryLimits(), live_workers=lambda: 1)
    await limiter.take(principal(burst=1))

    assert not (await limiter.take(principal(burst=1))).is_allowed
    assert (await limiter.take(principal(burst=1, key_id="mnopqrstuvwx"))).is_allowed
    assert (await limiter.take(principal(burst=1, tenant="globex"))).is_allowed


async def test_bucket_is_kept_in_the_slot_of_its_tenant() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        await Limiter(StoreLimits(store), live_workers=lambda: 1).take(principal())

        assert await store.execute("KEYS", "*") == [b"eg:{t:acme}:rl:abcdefghijkl"]


async def test_killed_store_turns_to_the_local_share() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        limiter = Limiter(StoreLimits(store), live_workers=lambda: 2)
        assert not (await limiter.take(principal())).is_local
        await valkey.kill()

        assert (await limiter.take(principal())).is_local


async def test_store_that_refuses_turns_to_the_local_share() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        await store.execute("LPUSH", "eg:{t:acme}:rl:abcdefghijkl", "not a bucket")

        assert (await Limiter(StoreLimits(store), live_workers=lambda: 1).take(principal())).is_local


async def test_decision_nobody_awaits_does_no_harm() -> None:
    limits = MemoryLimits()
    limits.is_down = True
    Limiter(limits, live_workers=lambda: 1).take(principal())
    gc.collect()


async def test_decision_can_be_gathered() -> None:
    limiter = Limiter(MemoryLimits(), live_workers=lambda: 1)

    decisions = await asyncio.gather(*(limiter.take(principal()) for _ in range(20)))

    assert sum(decision.is_allowed for decision in decisions) == 8


@given(
    rate=st.floats(0.1, 5_000),
    burst=st.integers(1, 1_000),
    pauses_s=st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_no_pattern_of_requests_passes_more_than_rate_and_burst(
    rate: float, burst: int, pauses_s: list[float]
) -> None:
    clock = Clock()
    buckets, limit = LocalBuckets(now=clock), RequestLimit(rate, burst)
    passed, started_s = 0, clock.now_s
    for pause_s in pauses_s:
        clock.now_s += pause_s
        passed += sum(buckets.take("b", limit).is_allowed for _ in range(20))

    assert passed <= burst + rate * (clock.now_s - started_s) + 0.01


def test_local_buckets_are_bounded() -> None:
    buckets = LocalBuckets(now=Clock(), capacity=3)
    for number in range(10):
        buckets.take(str(number), RequestLimit())

    assert len(buckets) == 3
