"""Limits as values: what may be set, which buckets they come to, and what is read off those."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from auth import DEFAULT_LIMITS, Budget, LevelLimits, Limits, Meter
from auth.limits.levels import Buckets, Period, Reading, Taken, budget_key, meters, refusal


def key(limits: Limits) -> LevelLimits:
    return LevelLimits("key", "abc", limits)


def service(limits: Limits) -> LevelLimits:
    return LevelLimits("service", "web", limits)


def moment(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# --- what may be set


@pytest.mark.parametrize(
    "limits",
    [
        Limits(),
        DEFAULT_LIMITS,
        Limits(requests_per_s=10),
        Limits(requests_per_s=5_000, burst=1),
        Limits(requests_per_min=1, tokens_per_min=1, concurrent=1, budget=Budget(0.01, "money", "day")),
    ],
)
def test_sensible_limits_are_valid(limits: Limits) -> None:
    limits.validate()


@pytest.mark.parametrize(
    ("limits", "word"),
    [
        (Limits(requests_per_s=9.9), "requests_per_s"),
        (Limits(requests_per_s=5_001), "requests_per_s"),
        (Limits(requests_per_s=float("nan")), "requests_per_s"),
        (Limits(burst=5), "burst"),
        (Limits(requests_per_s=10, burst=0), "burst"),
        (Limits(requests_per_min=0), "requests_per_min"),
        (Limits(tokens_per_min=-1), "tokens_per_min"),
        (Limits(concurrent=0), "concurrent"),
        (Limits(budget=Budget(0, "tokens", "day")), "budget"),
        (Limits(budget=Budget(float("inf"), "tokens", "day")), "budget"),
    ],
)
def test_limit_that_cannot_be_is_refused_by_name(limits: Limits, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        limits.validate()


# --- buckets


def test_no_limits_are_no_buckets() -> None:
    buckets = Buckets.of("acme", [key(Limits()), service(Limits())])

    assert buckets.all == ()
    assert not buckets.has_reserve


def test_burst_is_one_seconds_worth_unless_set() -> None:
    one, other = (
        Buckets.of("acme", [key(Limits(requests_per_s=50, burst=burst))]).all[0] for burst in (None, 500)
    )

    assert (one.capacity, one.refill_s) == (50, 1)
    assert (other.capacity, other.refill_s) == (500, 10)


def test_buckets_come_in_the_order_refusals_are_named() -> None:
    limits = Limits(
        requests_per_s=10,
        requests_per_min=5,
        tokens_per_min=9,
        concurrent=1,
        budget=Budget(1, "money", "month"),
    )
    labels = [bucket.label for bucket in Buckets.of("acme", [key(limits), service(limits)]).all]

    assert labels == [
        "key money budget per month",
        "service money budget per month",
        "key requests per second",
        "service requests per second",
        "key requests per minute",
        "service requests per minute",
        "key tokens per minute",
        "service tokens per minute",
        "key concurrent requests",
        "service concurrent requests",
    ]


def test_only_what_is_settled_is_a_reserve() -> None:
    assert not Buckets.of("acme", [key(DEFAULT_LIMITS)]).has_reserve
    assert Buckets.of("acme", [key(DEFAULT_LIMITS), service(Limits(tokens_per_min=5))]).has_reserve


@pytest.mark.parametrize(
    ("at", "length", "name", "ends"),
    [
        ("2026-11-29T23:59:59", "day", "2026-11-29", "2026-11-30"),
        ("2026-11-30T00:00:00", "day", "2026-11-30", "2026-12-01"),
        ("2026-11-30T12:00:00", "month", "2026-11", "2026-12-01"),
        ("2026-12-31T23:59:59", "month", "2026-12", "2027-01-01"),
        ("2028-02-29T05:00:00", "month", "2028-02", "2028-03-01"),
        ("2026-01-31T05:00:00", "month", "2026-01", "2026-02-01"),
    ],
)
def test_periods_are_calendar_days_and_months_in_utc(at: str, length: str, name: str, ends: str) -> None:
    period = Period.at(moment(at), length)  # type: ignore[arg-type] # parametrized

    assert period == (name, moment(ends))


def test_budget_counts_under_the_name_of_its_period() -> None:
    bucket = Buckets.of("acme", [key(Limits(budget=Budget(5, "money", "month")))]).all[0]

    found, period = budget_key(bucket, moment("2026-11-29"))

    assert found == "eg:{t:acme}:l:key:abc:money:2026-11"
    assert period.ends_at_s == moment("2026-12-01")


# --- what is read off them

TWO = Buckets.of(
    "acme",
    [
        key(Limits(requests_per_min=10, budget=Budget(9, "tokens", "day"))),
        service(Limits(requests_per_min=100, tokens_per_min=50, concurrent=2)),
    ],
)  # key budget, key requests, service requests, service tokens, service concurrency


def test_tightest_meter_is_the_one_with_the_least_left() -> None:
    readings = [Reading(0, 9, 1), Reading(0, 7, 2), Reading(0, 3, 4), Reading(0, -20, 90), Reading(0, 1, 0)]

    requests, tokens = meters(TWO, Taken(True, 0, readings))

    assert requests == Meter(limit=100, remaining=3, reset_s=4)
    assert tokens == Meter(limit=50, remaining=0, reset_s=90)


def test_first_refusal_is_named_and_the_longest_wait_is_told() -> None:
    readings = [Reading(0, 9, 1), Reading(0, 7, 2), Reading(2, 0, 4), Reading(5, 0, 9), Reading(1, 0, 0)]

    assert refusal(TWO, Taken(False, 0, readings)) == ("service requests per minute", 5)


def test_spent_budget_is_named_before_all_and_no_wait_is_told() -> None:
    readings = [Reading(None, 0, 1), Reading(3, 7, 2), Reading(2, 0, 4), Reading(0, 0, 9), Reading(1, 0, 0)]

    assert refusal(TWO, Taken(False, 0, readings)) == ("key token budget per day", None)
