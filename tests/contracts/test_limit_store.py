"""What every `LimitStore` promises, for the real one over Valkey and for the fake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auth import LimitStore, RequestLimit, StoreLimits
from auth.testing import MemoryLimits
from gateway.store import StoreClient
from tests.valkey import running_valkey

SLOW = RequestLimit(rate_per_s=0.01, burst=3)  # refills nothing within a test


@dataclass(frozen=True, slots=True)
class Subject:
    """A limit store, and how to take it down."""

    limits: LimitStore
    take_down: Callable[[], Awaitable[None]]


@asynccontextmanager
async def over_valkey() -> AsyncIterator[Subject]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        yield Subject(StoreLimits(store), valkey.kill)


@asynccontextmanager
async def in_memory() -> AsyncIterator[Subject]:
    limits = MemoryLimits()

    async def take_down() -> None:
        limits.is_down = True

    yield Subject(limits, take_down)


@pytest.fixture(params=[over_valkey, in_memory])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with request.param() as subject:
        yield subject


@pytest.fixture
def limits(subject: Subject) -> LimitStore:
    return subject.limits


async def test_full_bucket_allows_its_burst_and_no_more(limits: LimitStore) -> None:
    decisions = [await limits.take("b", SLOW) for _ in range(5)]

    assert [decision.is_allowed for decision in decisions] == [True, True, True, False, False]
    assert [decision.remaining for decision in decisions] == [2, 1, 0, 0, 0]
    assert all(decision.limit == 3 and not decision.is_local for decision in decisions)


async def test_decision_tells_when_the_next_request_fits_and_when_it_is_full(limits: LimitStore) -> None:
    allowed = await limits.take("b", SLOW, cost=3)
    refused = await limits.take("b", SLOW)

    assert allowed.retry_after_s == 0
    assert allowed.reset_s == pytest.approx(300, abs=5)
    assert refused.retry_after_s == pytest.approx(100, abs=5)
    assert refused.reset_s == pytest.approx(300, abs=5)


async def test_request_fits_after_the_time_it_was_told_to_wait(limits: LimitStore) -> None:
    limit = RequestLimit(rate_per_s=20, burst=1)
    await limits.take("b", limit)
    refused = await limits.take("b", limit)
    assert not refused.is_allowed

    await asyncio.sleep(refused.retry_after_s)

    assert (await limits.take("b", limit)).is_allowed


async def test_cost_is_taken_whole_or_not_at_all(limits: LimitStore) -> None:
    assert (await limits.take("b", SLOW, cost=2)).is_allowed
    assert not (await limits.take("b", SLOW, cost=2)).is_allowed
    assert (await limits.take("b", SLOW, cost=1)).is_allowed


async def test_buckets_do_not_share(limits: LimitStore) -> None:
    await limits.take("one", SLOW, cost=3)

    assert (await limits.take("two", SLOW)).is_allowed


async def test_lowered_limit_holds_at_once(limits: LimitStore) -> None:
    await limits.take("b", RequestLimit(rate_per_s=0.01, burst=100))

    allowed = [(await limits.take("b", RequestLimit(rate_per_s=0.01, burst=2))).is_allowed for _ in range(3)]
    assert allowed == [True, False, False]


@pytest.mark.parametrize("rate", [0.3, 3, 7, 333.3, 4_999])
async def test_burst_fits_at_one_moment_whatever_the_rate(limits: LimitStore, rate: float) -> None:
    limit = RequestLimit(rate_per_s=rate, burst=50)

    decisions = await asyncio.gather(*(limits.take("b", limit) for _ in range(50)))

    assert all(decision.is_allowed for decision in decisions)


async def test_two_hundred_at_one_instant_pass_only_the_burst(limits: LimitStore) -> None:
    decisions = await asyncio.gather(*(limits.take("b", RequestLimit(0.1, 10)) for _ in range(200)))

    assert sum(decision.is_allowed for decision in decisions) == 10


async def test_command_leaves_when_called_and_needs_no_await(limits: LimitStore) -> None:
    limits.take("b", SLOW, cost=3)

    assert not (await limits.take("b", SLOW)).is_allowed


async def test_store_that_is_down_raises_os_error(subject: Subject) -> None:
    await subject.take_down()

    with pytest.raises(OSError):  # noqa: PT011 (any of its kinds: down and late are the same to the caller)
        await subject.limits.take("b", SLOW)


@given(rate=st.integers(50, 2_000), burst=st.integers(1, 100), cost=st.integers(1, 3))
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_four_racing_clients_never_pass_more_than_rate_and_burst(rate: int, burst: int, cost: int) -> None:
    limit = RequestLimit(rate_per_s=rate, burst=burst)

    async def hammer(url: str, until_s: float) -> int:
        async with StoreClient.open(url, deadline_s=5) as store:
            limits, passed = StoreLimits(store), 0
            while time.monotonic() < until_s:
                decisions = await asyncio.gather(*(limits.take("b", limit, cost=cost) for _ in range(20)))
                passed += sum(decision.is_allowed for decision in decisions)
            return passed

    async def scenario() -> None:
        async with running_valkey() as valkey:
            started = time.monotonic()
            passed = sum(await asyncio.gather(*(hammer(valkey.url, started + 0.25) for _ in range(4))))
            most = burst + rate * (time.monotonic() - started)
            assert passed * cost <= most + 0.01
            if burst >= cost:
                assert passed * cost >= min(burst, most) - cost

    asyncio.run(scenario())


async def test_bucket_expires_when_it_is_full_and_a_refusal_does_not_renew_it() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        limits, limit = StoreLimits(store), RequestLimit(rate_per_s=10, burst=2)
        await limits.take("b", limit, cost=2)
        until_full_ms = await store.execute("PTTL", "b")
        assert 0 < until_full_ms <= 200

        assert not (await limits.take("b", limit)).is_allowed
        assert await store.execute("PTTL", "b") <= until_full_ms


async def test_clock_set_back_does_not_lock_anybody_out() -> None:
    """As after ten hours of a clock that ran ahead: the bucket is empty at worst."""
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        ahead_us = (time.time() + 36_000) * 1e6
        await store.execute("SET", "b", f"{ahead_us:.2f}")

        refused = await StoreLimits(store).take("b", RequestLimit(rate_per_s=10, burst=5))

        assert not refused.is_allowed
        assert refused.retry_after_s == pytest.approx(0.1, abs=0.001)
