"""The limiter while the store is away: its share, nothing, or everything; and what is seen of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import Budget, Limiter, LimitsUnavailable, Refusal
from auth.limits.levels import Ask, Buckets
from auth.testing import MemoryLimits
from tests.auth.limiting import Clock, Counting, Parts, caller
from tests.valkey import eventually

# --- the store is away: local


@pytest.mark.parametrize(("workers", "share"), [(0, 8), (1, 8), (4, 2), (100, 1)])
async def test_worker_allows_its_share_of_what_is_counted(workers: int, share: int) -> None:
    parts = Parts(workers=workers)
    parts.store.is_down = True

    assert await parts.passed(caller("a", requests_per_min=8), 10) == share
    assert await parts.passed(caller("b", concurrent=8), 10) == share


async def test_worker_allows_its_share_of_tokens_and_of_a_budget() -> None:
    parts = Parts(workers=4)
    parts.store.is_down = True

    assert await parts.passed(caller("a", tokens_per_min=1_000), 10, tokens=100) == 2
    assert await parts.passed(caller("b", budget=Budget(1_000, "tokens", "day")), 10, tokens=100) == 2
    assert await parts.passed(caller("c", budget=Budget(10, "money", "day")), 10, cost=1) == 2


async def test_share_refills_at_the_share_of_the_rate() -> None:
    parts, who = Parts(workers=4), caller(requests_per_s=8, burst=4)
    parts.store.is_down = True
    await parts.grant(who)
    refusal = await parts.refusal(who)
    assert refusal.is_local
    assert refusal.retry_after_s == pytest.approx(0.5)

    parts.clock.now_s += 0.5
    assert (await parts.grant(who)).is_local


async def test_share_below_one_request_is_one_now_and_then() -> None:
    """100 workers of a key with 8 a minute: each lets one pass, and the next after 100 / 8 minutes."""
    parts, who = Parts(workers=100), caller(requests_per_min=8)
    parts.store.is_down = True
    await parts.grant(who)

    assert (await parts.refusal(who)).retry_after_s == pytest.approx(60 * 100 / 8)


async def test_requests_of_before_count_against_the_share() -> None:
    parts, who = Parts(workers=2), caller(concurrent=4)
    grants = [await parts.grant(who) for _ in range(2)]
    parts.store.is_down = True
    await parts.refusal(who)

    parts.limiter.settle(grants[0], tokens=0)
    await parts.grant(who)
    await parts.refusal(who)


async def test_budget_spent_before_stays_spent() -> None:
    parts, who = Parts(workers=2), caller(budget=Budget(100, "tokens", "day"))
    await parts.grant(who, tokens=96)
    parts.store.is_down = True

    assert await parts.passed(who, 5, tokens=1) == 2  # half of what was left


async def test_local_reservation_is_settled_locally() -> None:
    parts, who = Parts(workers=2), caller(tokens_per_min=1_000)
    parts.store.is_down = True
    grant = await parts.grant(who, tokens=500)
    await parts.refusal(who, tokens=100)

    parts.limiter.settle(grant, tokens=50)

    assert await parts.passed(who, 9, tokens=150) == 3


async def test_lease_of_a_local_grant_is_shared_once_the_store_is_back() -> None:
    store, who = Counting(), caller(concurrent=1)
    async with Limiter(store, live_workers=lambda: 1) as limiter:
        store.is_down = True
        await limiter.take(who)
        store.is_down = False
        seen = len(store.renewals)
        await eventually(lambda: len(store.renewals) > seen + 1)

        assert isinstance(await limiter.take(who), Refusal)


@given(
    rate=st.floats(1, 5_000),
    burst=st.integers(1, 1_000),
    workers=st.integers(1, 8),
    pauses_s=st.lists(st.floats(0, 2), min_size=1, max_size=60),
)
def test_no_pattern_of_requests_passes_more_than_the_share(
    rate: float, burst: int, workers: int, pauses_s: list[float]
) -> None:
    clock = Clock()
    local = MemoryLimits(now=clock)
    buckets = Buckets.of("acme", caller(requests_per_s=rate, burst=burst).limits)
    passed, started_s = 0, clock.now_s
    for pause_s in pauses_s:
        clock.now_s += pause_s
        passed += sum(local.take_now(buckets, Ask(), weight=workers).is_taken for _ in range(20))

    assert passed <= max(1, burst / workers) + rate / workers * (clock.now_s - started_s) + 0.01


def test_local_buckets_are_bounded() -> None:
    local = MemoryLimits(now=Clock(), capacity=3)
    for number in range(10):
        local.take_now(Buckets.of("acme", caller(str(number), requests_per_min=1).limits), Ask())

    assert len(local) == 3


# --- the store is away: closed, open, and what is seen of it


async def test_closed_lets_nothing_through_without_the_store() -> None:
    parts = Parts(policy="closed")
    parts.store.is_down = True

    with pytest.raises(LimitsUnavailable):
        await parts.limiter.take(caller(requests_per_min=5))


async def test_open_lets_everything_through_without_the_store() -> None:
    parts, who = Parts(policy="open"), caller(requests_per_min=1, concurrent=1, tokens_per_min=5)
    parts.store.is_down = True

    grants = [await parts.grant(who, tokens=100) for _ in range(5)]

    assert all(grant.is_local and grant.requests is None for grant in grants)
    for grant in grants:
        parts.limiter.settle(grant, tokens=100)
    assert parts.limiter.state.leases == 0


async def test_state_tells_that_and_since_when_limits_are_not_shared() -> None:
    parts, who = Parts(), caller(requests_per_min=50)
    await parts.grant(who)
    assert parts.limiter.state.is_shared

    parts.clock.now_s, parts.store.is_down = 200, True
    await parts.passed(who, 3)
    state = parts.limiter.state
    assert (state.policy, state.is_shared, state.since_s, state.alone) == ("local", False, 200, 3)

    parts.clock.now_s, parts.store.is_down = 300, False
    await parts.grant(who)
    state = parts.limiter.state
    assert (state.is_shared, state.since_s, state.alone) == (True, 300, 3)
