"""What every `LimitStore` promises of leases and budgets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from auth import LevelLimits, Limits, LimitStore
from auth.limits.levels import Ask, Buckets
from tests.contracts.limit_stores import (
    LEASE_S,
    budget,
    concurrent,
    in_memory,
    key,
    left,
    over_valkey,
    settled,
)


@pytest.fixture(params=[over_valkey, in_memory])
async def limits(request: pytest.FixtureRequest) -> AsyncIterator[LimitStore]:
    async with request.param() as subject:
        yield subject.limits


# --- concurrency


async def test_so_many_run_at_once_and_no_more(limits: LimitStore) -> None:
    buckets = concurrent(2)
    asks = [Ask(lease=name) for name in "abc"]
    taken = [await limits.take(buckets, ask) for ask in asks]
    assert [each.is_taken for each in taken] == [True, True, False]

    await settled(limits, buckets, asks[0], taken[0])

    assert (await limits.take(buckets, asks[2])).is_taken


async def test_lease_that_nobody_renews_falls_away(limits: LimitStore) -> None:
    buckets = concurrent(1)
    await limits.take(buckets, Ask(lease="killed"))
    assert not (await limits.take(buckets, Ask(lease="b"))).is_taken

    await asyncio.sleep(LEASE_S + 0.05)

    assert (await limits.take(buckets, Ask(lease="b"))).is_taken


async def test_renewed_lease_holds(limits: LimitStore) -> None:
    buckets = concurrent(1)
    await limits.take(buckets, Ask(lease="a"))
    for _ in range(3):
        await asyncio.sleep(LEASE_S / 2)
        await limits.renew({buckets.leased[0]: ["a"]})

    assert not (await limits.take(buckets, Ask(lease="b"))).is_taken


async def test_renewal_takes_a_lost_lease_again(limits: LimitStore) -> None:
    buckets = concurrent(1)

    await limits.renew({buckets.leased[0]: ["of before the store was emptied"]})

    assert not (await limits.take(buckets, Ask(lease="b"))).is_taken


async def test_many_leases_of_many_tenants_are_renewed(limits: LimitStore) -> None:
    levels = [LevelLimits("key", name, Limits(concurrent=700)) for name in "ab"]
    keys = [Buckets.of(tenant, [level]) for tenant in ("acme", "globex") for level in levels]

    await limits.renew({buckets.leased[0]: [f"l{number}" for number in range(600)] for buckets in keys})

    assert [await left(limits, buckets) for buckets in keys] == [[100]] * 4


async def test_unknown_taking_settles_only_the_lease(limits: LimitStore) -> None:
    buckets, ask = key(Limits(concurrent=1, tokens_per_min=100)), Ask(tokens=80, lease="a")
    await limits.take(buckets, ask)

    await limits.settle(buckets, ask, taken_at_us=None, tokens=0, cost=0)

    assert await left(limits, buckets) == [pytest.approx(20, abs=1), 1]


# --- budgets


@pytest.mark.parametrize("period", ["day", "month"])
async def test_spent_budget_says_that_waiting_does_not_help(limits: LimitStore, period: str) -> None:
    buckets, now_s = budget(100, period=period), time.time()
    assert (await limits.take(buckets, Ask(tokens=80, at_s=now_s))).is_taken
    refused = await limits.take(buckets, Ask(tokens=21, at_s=now_s))

    assert not refused.is_taken
    assert refused.readings[0].wait_s is None
    assert (await limits.take(buckets, Ask(tokens=20, at_s=now_s))).is_taken
    assert await left(limits, buckets, at_s=now_s) == [0]


async def test_budget_begins_anew_with_its_period(limits: LimitStore) -> None:
    buckets, today_s = budget(100), time.time()
    await limits.take(buckets, Ask(tokens=100, at_s=today_s))

    assert await left(limits, buckets, at_s=today_s) == [0]
    assert await left(limits, buckets, at_s=today_s + 86_400) == [100]


async def test_settled_money_is_what_was_used(limits: LimitStore) -> None:
    buckets, ask = budget(1.0, unit="money", period="month"), Ask(tokens=10, cost=0.9, at_s=time.time())
    taken = await limits.take(buckets, ask)
    assert not (await limits.take(buckets, ask)).is_taken

    await settled(limits, buckets, ask, taken, tokens=10, cost=0.000_125)

    assert await left(limits, buckets, at_s=ask.at_s) == [pytest.approx(0.999_875)]


async def test_budget_is_settled_in_the_period_it_was_taken_in(limits: LimitStore) -> None:
    buckets, today_s = budget(100), time.time()
    ask = Ask(tokens=50, at_s=today_s)
    taken = await limits.take(buckets, ask)
    await limits.take(buckets, Ask(tokens=70, at_s=today_s + 86_400))

    await settled(limits, buckets, ask, taken, tokens=10)

    assert await left(limits, buckets, at_s=today_s) == [90]
    assert await left(limits, buckets, at_s=today_s + 86_400) == [30]
