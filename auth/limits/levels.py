"""Decides which buckets the limits of a request's levels come to, in which order, and what is read off them.

The order is the one in which a refusal is named: budgets first, as waiting does not help there, then each
kind for the key, the service and the tenant. A bucket's store key carries the tenant as its hash tag, so that
all buckets of a request lie in one slot of a cluster.
"""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from .model import Kind, LevelLimits, LiveLimit, Meter

_ORDER: Final[tuple[Kind, ...]] = ("budget", "requests/s", "requests/min", "tokens/min", "concurrent")
_WORDS: Final[dict[Kind, str]] = {
    "requests/s": "requests per second",
    "requests/min": "requests per minute",
    "tokens/min": "tokens per minute",
    "concurrent": "concurrent requests",
}
_MINUTE_S, _DAY_S = 60.0, 86_400


@dataclass(frozen=True, slots=True)
class Bucket:
    """`refill_s` is the time from empty to full; 0 where time alone gives nothing back."""

    kind: Kind
    limits: LevelLimits
    key: str
    capacity: float
    refill_s: float = 0.0

    @property
    def label(self) -> str:
        if (budget := self.limits.limits.budget) is not None and self.kind == "budget":
            return f"{self.limits.level} {budget.unit.removesuffix('s')} budget per {budget.period}"
        return f"{self.limits.level} {_WORDS[self.kind]}"

    @property
    def is_money(self) -> bool:
        budget = self.limits.limits.budget
        return self.kind == "budget" and budget is not None and budget.unit == "money"


@dataclass(frozen=True, slots=True, eq=False)
class Buckets:
    """All buckets of a principal, in order. Compared by identity: made once, then looked up by it.

    `has_reserve` says that something is to be settled at the end, `leased` names the keys that hold leases.
    """

    all: tuple[Bucket, ...]
    has_budget: bool
    has_reserve: bool
    leased: tuple[str, ...]

    @classmethod
    def of(cls, tenant: str, levels: Sequence[LevelLimits]) -> Buckets:
        found = sorted(
            (bucket for level in levels for bucket in _of_level(tenant, level)),
            key=lambda bucket: _ORDER.index(bucket.kind),  # stable: the levels keep their order
        )
        kinds = {bucket.kind for bucket in found}
        return cls(
            all=tuple(found),
            has_budget="budget" in kinds,
            has_reserve=not kinds.isdisjoint(("budget", "tokens/min", "concurrent")),
            leased=tuple(bucket.key for bucket in found if bucket.kind == "concurrent"),
        )


def _of_level(tenant: str, level: LevelLimits) -> Iterator[Bucket]:
    limits = level.limits
    prefix = f"eg:{{t:{tenant}}}:l:{level.level}:{level.name}"
    if (rate := limits.requests_per_s) is not None:
        burst = limits.burst if limits.burst is not None else max(1, int(rate))
        yield Bucket("requests/s", level, f"{prefix}:rs", float(burst), burst / rate)
    if limits.requests_per_min is not None:
        yield Bucket("requests/min", level, f"{prefix}:rm", float(limits.requests_per_min), _MINUTE_S)
    if limits.tokens_per_min is not None:
        yield Bucket("tokens/min", level, f"{prefix}:tm", float(limits.tokens_per_min), _MINUTE_S)
    if limits.concurrent is not None:
        yield Bucket("concurrent", level, f"{prefix}:co", float(limits.concurrent))
    if (budget := limits.budget) is not None:
        yield Bucket("budget", level, f"{prefix}:{budget.unit}", float(budget.amount))


class Period(NamedTuple):
    """A calendar day or month in UTC; `name` is part of the store key of a budget."""

    name: str
    ends_at_s: float

    @classmethod
    def at(cls, at_s: float, length: Literal["day", "month"]) -> Period:
        year, month, day, *_ = time.gmtime(at_s)
        if length == "day":
            return cls(f"{year}-{month:02}-{day:02}", (at_s // _DAY_S + 1) * _DAY_S)
        following = (year + month // 12, month % 12 + 1, 1, 0, 0, 0)
        return cls(f"{year}-{month:02}", float(calendar.timegm(following)))


def budget_key(bucket: Bucket, at_s: float) -> tuple[str, Period]:
    """Where a budget bucket counts at this moment (wall clock), and the period it counts for."""
    budget = bucket.limits.limits.budget
    assert budget is not None
    period = Period.at(at_s, budget.period)
    return f"{bucket.key}:{period.name}", period


class Ask(NamedTuple):
    """What a request wants to take: one request, so many tokens and so much money, and a lease while it runs.

    `at_s` is wall-clock time and chooses the budgets' period.
    """

    tokens: float = 0
    cost: float = 0.0
    lease: str = ""
    at_s: float = 0.0


class Reading(NamedTuple):
    """A bucket after the question: `wait_s` is 0 where it allows it, None where time does not help."""

    wait_s: float | None
    remaining: float
    reset_s: float


class Taken(NamedTuple):
    """`at_us` is the store's clock. Unless `is_taken`, nothing was."""

    is_taken: bool
    at_us: float
    readings: Sequence[Reading]


def meters(buckets: Buckets, taken: Taken) -> tuple[Meter | None, Meter | None]:
    """The tightest of the request buckets and of the token buckets: the one with the least left."""
    requests: Meter | None = None
    tokens: Meter | None = None
    for bucket, (_, remaining, reset_s) in zip(buckets.all, taken.readings, strict=True):
        if bucket.kind in ("requests/s", "requests/min"):
            requests = _tighter(requests, bucket, remaining, reset_s)
        elif bucket.kind == "tokens/min":
            tokens = _tighter(tokens, bucket, remaining, reset_s)
    return requests, tokens


def _tighter(meter: Meter | None, bucket: Bucket, remaining: float, reset_s: float) -> Meter:
    if meter is not None and meter.remaining <= remaining:
        return meter
    return Meter(int(bucket.capacity), max(0, int(remaining)), reset_s)


def refusal(buckets: Buckets, taken: Taken) -> tuple[str, float | None]:
    """The first limit that refused, and when all that refused allow it; None if one of them never does by
    waiting."""
    refused = [
        (bucket, reading.wait_s)
        for bucket, reading in zip(buckets.all, taken.readings, strict=True)
        if reading.wait_s != 0
    ]
    waits = [wait_s for _, wait_s in refused if wait_s is not None]
    return refused[0][0].label, max(waits) if len(waits) == len(refused) else None


def live(buckets: Buckets, taken: Taken) -> tuple[LiveLimit, ...]:
    return tuple(
        LiveLimit(
            level=bucket.limits.level,
            name=bucket.limits.name,
            kind=bucket.kind,
            capacity=bucket.capacity,
            remaining=reading.remaining,
            reset_s=None if bucket.kind == "concurrent" else reading.reset_s,
        )
        for bucket, reading in zip(buckets.all, taken.readings, strict=True)
    )
