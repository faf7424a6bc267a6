"""What every `LimitStore` promises of requests and tokens, for the real one over Valkey and for the one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from auth import Budget, LevelLimits, Limits, LimitStore
from auth.limits.levels import Ask, Buckets
from tests.contracts.limit_stores import (
    Subject,
    concurrent,
    in_memory,
    key,
    left,
    over_valkey,
    per_minute,
    settled,
    tokens,
)


@pytest.fixture(params=[over_valkey, in_memory])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with request.param() as subject:
        yield subject


@pytest.fixture
def limits(subject: Subject) -> LimitStore:
    return subject.limits


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
