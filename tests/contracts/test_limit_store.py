"""What every `LimitStore` promises, for the real one over Valkey and for the one in memory."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from auth import Budget, LevelLimits, Limits, LimitStore, StoreLimits
from auth.limits.levels import Ask, Buckets, Taken
from auth.testing import MemoryLimits
from gateway.store import StoreClient
from tests.valkey import running_valkey

LEASE_S = 0.3


@dataclass(frozen=True, slots=True)
class Subject:
    """A limit store, and how to take it down."""

    limits: LimitStore
    take_down: Callable[[], Awaitable[None]]


@asynccontextmanager
async def over_valkey() -> AsyncIterator[Subject]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        yield Subject(StoreLimits(store, lease_s=LEASE_S), valkey.kill)


@asynccontextmanager
async def in_memory() -> AsyncIterator[Subject]:
    limits = MemoryLimits(lease_s=LEASE_S)

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


def key(limits: Limits, name: str = "k") -> Buckets:
    return Buckets.of("acme", [LevelLimits("key", name, limits)])


def per_minute(requests: int) -> Buckets:
    return key(Limits(requests_per_min=requests))


def tokens(per_min: int) -> Buckets:
    return key(Limits(tokens_per_min=per_min))


def concurrent(count: int) -> Buckets:
    return key(Limits(concurrent=count))


def budget(amount: float, *, unit: str = "tokens", period: str = "day") -> Buckets:
    return key(Limits(budget=Budget(amount, unit, period)))  # type: ignore[arg-type] # parametrized


async def settled(
    limits: LimitStore, buckets: Buckets, ask: Ask, taken: Taken, *, tokens: float = 0, cost: float = 0
) -> None:
    await limits.settle(buckets, ask, taken_at_us=taken.at_us, tokens=tokens, cost=cost)


async def left(limits: LimitStore, buckets: Buckets, *, at_s: float = 0) -> list[float]:
    return [reading.remaining for reading in (await limits.look(buckets, at_s=at_s)).readings]


# --- requests


async def test_full_bucket_allows_its_burst_and_no_more(limits: LimitStore) -> None:
    buckets = per_minute(3)
    taken = [await limits.take(buckets, Ask()) for _ in range(5)]

    assert [each.is_taken for each in taken] == [True, True, True, False, False]
    assert [each.readings[0].remaining for each in taken] == [2, 1, 0, 0, 0]


async def test_answer_tells_when_the_next_request_fits_and_when_all_is_back(limits: LimitStore) -> None:
    buckets = per_minute(2)
    await limits.take(buckets, Ask())
    last = (await limits.take(buckets, Ask())).readings[0]
    refused = (await limits.take(buckets, Ask())).readings[0]

    assert last.wait_s == 0
    assert last.reset_s == pytest.approx(60, abs=1)
    assert refused.wait_s == pytest.approx(30, abs=1)
    assert refused.reset_s == pytest.approx(60, abs=1)


async def test_request_fits_after_the_time_it_was_told_to_wait(limits: LimitStore) -> None:
    buckets = key(Limits(requests_per_s=20, burst=1))
    await limits.take(buckets, Ask())
    refused = await limits.take(buckets, Ask())
    assert not refused.is_taken
    assert refused.readings[0].wait_s

    await asyncio.sleep(refused.readings[0].wait_s + 0.001)

    assert (await limits.take(buckets, Ask())).is_taken


async def test_keys_do_not_share(limits: LimitStore) -> None:
    await limits.take(key(Limits(requests_per_min=1), "one"), Ask())

    assert (await limits.take(key(Limits(requests_per_min=1), "two"), Ask())).is_taken


async def test_tenants_do_not_share(limits: LimitStore) -> None:
    level = LevelLimits("service", "web", Limits(requests_per_min=1))
    await limits.take(Buckets.of("acme", [level]), Ask())

    assert (await limits.take(Buckets.of("globex", [level]), Ask())).is_taken


async def test_lowered_limit_holds_at_once(limits: LimitStore) -> None:
    await limits.take(per_minute(100), Ask())

    assert [(await limits.take(per_minute(2), Ask())).is_taken for _ in range(3)] == [True, False, False]


@pytest.mark.parametrize("rate", [0.3, 3, 7, 333.3, 4_999])
async def test_burst_fits_at_one_moment_whatever_the_rate(limits: LimitStore, rate: float) -> None:
    buckets = key(Limits(requests_per_s=rate, burst=50))

    taken = await asyncio.gather(*(limits.take(buckets, Ask()) for _ in range(50)))

    assert all(each.is_taken for each in taken)


async def test_two_hundred_at_one_instant_pass_only_the_burst(limits: LimitStore) -> None:
    buckets = key(Limits(requests_per_s=0.1, burst=10))

    taken = await asyncio.gather(*(limits.take(buckets, Ask()) for _ in range(200)))

    assert sum(each.is_taken for each in taken) == 10


# --- all or nothing


async def test_refusal_by_one_bucket_takes_from_none(limits: LimitStore) -> None:
    """Refused for its concurrency, a request leaves the rates, the tokens and the budgets as they were."""
    everything = Limits(
        requests_per_s=10, burst=5, requests_per_min=5, tokens_per_min=500, concurrent=1,
        budget=Budget(500, "tokens", "month"),
    )  # fmt: skip
    buckets = Buckets.of(
        "acme", [LevelLimits("key", "k", everything), LevelLimits("tenant", "acme", everything)]
    )
    first = Ask(tokens=100, lease="one")
    taken = await limits.take(buckets, first)
    assert taken.is_taken
    before = await left(limits, buckets)

    assert not (await limits.take(buckets, Ask(tokens=100, lease="two"))).is_taken

    assert await left(limits, buckets) == before
    await settled(limits, buckets, first, taken)
    assert (await limits.take(buckets, Ask(tokens=100, lease="three"))).is_taken


async def test_limits_of_all_levels_apply_at_once(limits: LimitStore) -> None:
    service = LevelLimits("service", "web", Limits(requests_per_min=3))
    one, two = (
        Buckets.of("acme", [LevelLimits("key", name, Limits(requests_per_min=2)), service]) for name in "ab"
    )

    passed = [(await limits.take(buckets, Ask())).is_taken for buckets in (one, one, one, two, two)]

    assert passed == [True, True, False, True, False]


async def test_looking_takes_nothing(limits: LimitStore) -> None:
    buckets = key(
        Limits(requests_per_min=5, tokens_per_min=100, concurrent=2, budget=Budget(9, "money", "day"))
    )
    for _ in range(3):
        assert await left(limits, buckets) == [9, 5, 100, 2]


# --- tokens


async def test_what_was_not_used_is_given_back(limits: LimitStore) -> None:
    buckets, ask = tokens(1_000), Ask(tokens=600)
    taken = await limits.take(buckets, ask)
    assert not (await limits.take(buckets, ask)).is_taken

    await settled(limits, buckets, ask, taken, tokens=100)

    assert await left(limits, buckets) == [900]


async def test_failure_gives_everything_back(limits: LimitStore) -> None:
    buckets, ask = tokens(1_000), Ask(tokens=600)
    await settled(limits, buckets, ask, await limits.take(buckets, ask))

    assert await left(limits, buckets) == [1_000]


async def test_what_was_used_beyond_the_reservation_is_owed(limits: LimitStore) -> None:
    buckets, ask = tokens(600), Ask(tokens=100)
    await settled(limits, buckets, ask, await limits.take(buckets, ask), tokens=900)

    refused = await limits.take(buckets, Ask(tokens=100))
    assert not refused.is_taken
    assert refused.readings[0].wait_s == pytest.approx(40, abs=1)  # 300 owed and 100 wanted, at 10 a second


async def test_request_beyond_the_whole_bucket_waits_until_it_is_full(limits: LimitStore) -> None:
    """A guess that is too high must not lock anybody out for good."""
    buckets = tokens(600)
    assert (await limits.take(buckets, Ask(tokens=60))).is_taken

    refused = await limits.take(buckets, Ask(tokens=5_000))
    assert refused.readings[0].wait_s == pytest.approx(6, abs=0.5)
    assert (await limits.take(key(Limits(tokens_per_min=600), "other"), Ask(tokens=5_000))).is_taken


async def test_what_costs_nothing_passes_an_empty_bucket(limits: LimitStore) -> None:
    buckets = key(Limits(tokens_per_min=100, budget=Budget(100, "tokens", "day")))
    await limits.take(buckets, Ask(tokens=100))

    assert not (await limits.take(buckets, Ask(tokens=1))).is_taken
    assert (await limits.take(buckets, Ask(tokens=0))).is_taken


async def test_late_return_to_a_bucket_that_was_full_meanwhile_gives_nothing(limits: LimitStore) -> None:
    """What was taken first has refilled; returning it would hand out again what the second one took."""
    buckets = tokens(6_000)  # 100 a second
    early, late = Ask(tokens=10), Ask(tokens=5_000)
    taken = await limits.take(buckets, early)
    await asyncio.sleep(0.12)
    await limits.take(buckets, late)

    await settled(limits, buckets, early, taken)

    assert (await left(limits, buckets))[0] <= 1_005


async def test_late_return_to_a_bucket_in_use_gives_everything(limits: LimitStore) -> None:
    buckets = tokens(6_000)
    early, late = Ask(tokens=1_000), Ask(tokens=5_000)
    taken = await limits.take(buckets, early)
    await asyncio.sleep(0.05)
    assert (await limits.take(buckets, late)).is_taken

    await settled(limits, buckets, early, taken)

    assert (await left(limits, buckets))[0] == pytest.approx(1_010, abs=9)


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


# --- how it is asked


async def test_command_leaves_when_called_and_needs_no_await(limits: LimitStore) -> None:
    buckets = per_minute(1)
    limits.take(buckets, Ask())

    assert not (await limits.take(buckets, Ask())).is_taken


async def test_store_that_is_down_raises_os_error(subject: Subject) -> None:
    await subject.take_down()

    buckets = concurrent(1)
    for question in (
        lambda: subject.limits.take(buckets, Ask(lease="a")),
        lambda: subject.limits.look(buckets, at_s=0),
        lambda: subject.limits.settle(buckets, Ask(lease="a"), taken_at_us=1, tokens=0, cost=0),
        lambda: subject.limits.renew({"k": ["a"]}),
    ):
        with pytest.raises(OSError):  # noqa: PT011 (any of its kinds: down and late are the same to the caller)
            await question()


# --- the real one alone


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
