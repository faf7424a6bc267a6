"""The limiter: shared buckets while there is a store, policy while there is none, and what a request gives back."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from auth import (
    Budget,
    Grant,
    LevelLimits,
    Limiter,
    Limits,
    LimitsUnavailable,
    Refusal,
    StoreLimits,
    StorePolicy,
)
from auth.limits.levels import Ask, Buckets, Taken
from auth.testing import MemoryLimits
from gateway.store import StoreClient
from tests.valkey import eventually, running_valkey


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True)
class Caller:
    limits: tuple[LevelLimits, ...]
    key_id: str = "abc"
    tenant: str = "acme"


def caller(key_id: str = "abc", **limits: int | float | Budget) -> Caller:
    return Caller((LevelLimits("key", key_id, Limits(**limits)),), key_id)  # type: ignore[arg-type] # as in Limits


@dataclass
class Parts:
    """A limiter over a store in memory, both on one clock."""

    policy: StorePolicy = "local"
    workers: int = 1
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = MemoryLimits(now=self.clock)
        self.limiter = Limiter(
            self.store, live_workers=lambda: self.workers, policy=self.policy, now=self.clock
        )

    async def grant(self, who: Caller, *, tokens: int = 0, cost: float = 0) -> Grant:
        answer = await self.limiter.take(who, tokens=tokens, cost=cost)
        assert isinstance(answer, Grant)
        return answer

    async def refusal(self, who: Caller, *, tokens: int = 0, cost: float = 0) -> Refusal:
        answer = await self.limiter.take(who, tokens=tokens, cost=cost)
        assert isinstance(answer, Refusal)
        return answer

    async def passed(self, who: Caller, times: int, *, tokens: int = 0, cost: float = 0) -> int:
        answers = [await self.limiter.take(who, tokens=tokens, cost=cost) for _ in range(times)]
        return sum(isinstance(answer, Grant) for answer in answers)

    async def left(self, who: Caller) -> list[float]:
        return [limit.remaining for limit in await self.limiter.look(who.tenant, who.limits)]


# --- what it answers


async def test_grant_tells_the_tightest_meters() -> None:
    grant = await Parts().grant(
        caller(requests_per_s=10, burst=8, requests_per_min=5, tokens_per_min=60), tokens=6
    )

    assert grant.requests is not None
    assert grant.tokens is not None
    assert (grant.requests.limit, grant.requests.remaining) == (5, 4)
    assert (grant.tokens.limit, grant.tokens.remaining) == (60, 54)
    assert grant.tokens.reset_s == pytest.approx(6)
    assert not grant.is_local


async def test_refusal_names_the_limit_and_when_a_request_fits() -> None:
    parts, who = Parts(), caller(requests_per_min=2)
    await parts.passed(who, 2)

    refusal = await parts.refusal(who)
    assert refusal.limit == "key requests per minute"
    assert refusal.retry_after_s == pytest.approx(30)
    assert refusal.requests is not None
    assert refusal.requests.remaining == 0

    parts.clock.now_s += 30
    await parts.grant(who)


async def test_spent_budget_cannot_be_waited_for() -> None:
    parts, who = Parts(), caller(requests_per_min=9, budget=Budget(1.0, "money", "month"))
    await parts.grant(who, cost=0.9)

    refusal = await parts.refusal(who, cost=0.2)

    assert (refusal.limit, refusal.retry_after_s) == ("key money budget per month", None)


async def test_nothing_limited_is_granted_without_the_store() -> None:
    parts = Parts(policy="closed")
    parts.store.is_down = True

    grant = await parts.grant(caller())

    assert (grant.requests, grant.tokens, grant.is_local) == (None, None, False)
    parts.limiter.settle(grant, tokens=5)


async def test_changed_limits_hold_from_the_next_request_on() -> None:
    parts = Parts()
    await parts.grant(caller(requests_per_min=100))

    assert await parts.passed(caller(requests_per_min=2), 5) == 1


async def test_keys_and_tenants_have_buckets_of_their_own() -> None:
    parts = Parts()
    await parts.grant(caller(requests_per_min=1))

    await parts.refusal(caller(requests_per_min=1))
    await parts.grant(caller("other", requests_per_min=1))
    await parts.grant(Caller(caller("third", requests_per_min=1).limits, "third", "globex"))


async def test_look_needs_the_store() -> None:
    parts, who = Parts(), caller(requests_per_min=5, concurrent=2)
    await parts.grant(who)
    requests, running = await parts.limiter.look("acme", who.limits)
    assert (requests.level, requests.name, requests.kind) == ("key", "abc", "requests/min")
    assert (requests.capacity, requests.remaining) == (5, 4)
    assert requests.reset_s == pytest.approx(12)
    assert (running.kind, running.capacity, running.remaining, running.reset_s) == ("concurrent", 2, 1, None)

    parts.store.is_down = True
    with pytest.raises(LimitsUnavailable):
        await parts.limiter.look("acme", who.limits)


# --- settling


async def test_settling_gives_back_what_was_not_used_once() -> None:
    parts, who = Parts(), caller(tokens_per_min=600, concurrent=1, budget=Budget(5, "money", "day"))
    grant = await parts.grant(who, tokens=500, cost=4)

    for _ in range(3):
        parts.limiter.settle(grant, tokens=100, cost=1)

    assert await parts.left(who) == [4, 500, 1]
    assert parts.limiter.state.leases == 0


async def test_caller_who_leaves_while_the_store_is_asked_holds_no_lease() -> None:
    parts, who = Parts(), caller(concurrent=1)
    never: asyncio.Future[Taken] = asyncio.get_running_loop().create_future()
    take = parts.store.take

    def late(buckets: Buckets, ask: Ask, *, deadline: float | None = None) -> asyncio.Future[Taken]:
        take(buckets, ask)
        return never

    parts.store.take = late  # type: ignore[method-assign] # a store that has taken, but not answered yet
    taking = parts.limiter.take(who)
    asking = asyncio.ensure_future(taking)
    await asyncio.sleep(0)
    asking.cancel()
    await asyncio.wait([asking])

    assert await parts.left(who) == [1]


async def test_decision_nobody_awaits_does_no_harm() -> None:
    parts = Parts()
    parts.store.is_down = True
    parts.limiter.take(caller(concurrent=1))
    gc.collect()

    assert parts.limiter.state.leases == 0


# --- leases


class Counting(MemoryLimits):
    def __init__(self) -> None:
        super().__init__(lease_s=0.15)
        self.renewals: list[Mapping[str, Sequence[str]]] = []

    async def renew(self, leases: Mapping[str, Sequence[str]]) -> None:
        self.renewals.append(leases)
        await super().renew(leases)


async def test_lease_is_renewed_while_the_request_runs() -> None:
    store, who = Counting(), caller(concurrent=1)
    async with Limiter(store, live_workers=lambda: 1) as limiter:
        grant = await limiter.take(who)
        await asyncio.sleep(0.4)
        assert isinstance(await limiter.take(who), Refusal)
        assert isinstance(grant, Grant)

        limiter.settle(grant, tokens=0)
        assert isinstance(await limiter.take(who), Grant)


async def test_leases_of_all_keys_are_renewed_in_one_call() -> None:
    store = Counting()
    async with Limiter(store, live_workers=lambda: 1) as limiter:
        for name in "abc":
            await limiter.take(caller(name, concurrent=9))
            await limiter.take(caller(name, concurrent=9))
        await eventually(lambda: bool(store.renewals))

    assert [len(names) for names in store.renewals[0].values()] == [2, 2, 2]


async def test_renewing_goes_on_after_the_store_was_away() -> None:
    store, who = Counting(), caller(concurrent=1)
    async with Limiter(store, live_workers=lambda: 1) as limiter:
        await limiter.take(who)
        store.is_down = True
        await eventually(lambda: len(store.renewals) >= 4)  # longer than a lease
        store.is_down = False
        await eventually(lambda: len(store.renewals) >= 6)

        assert isinstance(await limiter.take(who), Refusal)


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


# --- on a real store


async def test_killed_store_turns_to_the_local_share() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        limiter, who = Limiter(StoreLimits(store), live_workers=lambda: 2), caller(requests_per_min=8)
        first = await limiter.take(who)
        await valkey.kill()
        second = await limiter.take(who)

        assert not first.is_local
        assert second.is_local


async def test_store_that_refuses_turns_to_the_local_share() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        await store.execute("LPUSH", "eg:{t:acme}:l:key:abc:rm", "not a bucket")

        answer = await Limiter(StoreLimits(store), live_workers=lambda: 1).take(caller(requests_per_min=8))
        assert answer.is_local


async def test_many_requests_of_all_kinds_leave_every_count_as_it_was() -> None:
    who = caller(
        requests_per_s=5_000, tokens_per_min=10**6, concurrent=300, budget=Budget(10**6, "tokens", "day")
    )
    async with (
        running_valkey() as valkey,
        StoreClient.open(valkey.url, deadline_s=5) as store,
        Limiter(StoreLimits(store), live_workers=lambda: 1) as limiter,
    ):
        for _ in range(3):
            answers = await asyncio.gather(*(limiter.take(who, tokens=1_000) for _ in range(300)))
            assert all(isinstance(answer, Grant) for answer in answers)
            for answer in answers:
                assert isinstance(answer, Grant)
                limiter.settle(answer, tokens=0)
        await store.execute("PING")

        budget, _, tokens, running = await limiter.look("acme", who.limits)
        assert (budget.remaining, tokens.remaining, running.remaining) == (10**6, 10**6, 300)
