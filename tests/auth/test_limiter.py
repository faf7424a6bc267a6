"""The limiter while there is a store: what it answers, what a request gives back, and leases that are renewed."""

from __future__ import annotations

import asyncio
import gc

import pytest

from auth import Budget, Grant, Limiter, LimitsUnavailable, Refusal, StoreLimits
from auth.limits.levels import Ask, Buckets, Taken
from gateway.store.client import StoreClient
from tests.auth.limiting import Caller, Counting, Parts, caller
from tests.valkey import eventually, running_valkey

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
