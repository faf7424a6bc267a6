"""What a key, a service or a tenant may use, and what the limiter answers when a request asks for it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

Level = Literal["key", "service", "tenant"]
Kind = Literal["budget", "requests/s", "requests/min", "tokens/min", "concurrent"]
StorePolicy = Literal["local", "closed", "open"]

_LEAST_PER_S, _MOST_PER_S = 10, 5_000
_MOST = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Budget:
    """So much a calendar day or month (UTC), in tokens or in the money of the price table."""

    amount: float
    unit: Literal["tokens", "money"]
    period: Literal["day", "month"]


@dataclass(frozen=True, slots=True)
class Limits:
    """What one level allows; None is no limit at this level.

    `burst` requests may come at once where `requests_per_s` is limited; None is one second's worth.
    """

    requests_per_s: float | None = None
    burst: int | None = None
    requests_per_min: int | None = None
    tokens_per_min: int | None = None
    concurrent: int | None = None
    budget: Budget | None = None

    def validate(self) -> None:
        """Raises ValueError, in words for an admin, for limits that may not be set."""
        rate = self.requests_per_s
        if rate is not None and not _LEAST_PER_S <= rate <= _MOST_PER_S:
            raise ValueError(f"requests_per_s is {rate:g}: expected {_LEAST_PER_S} to {_MOST_PER_S}.")
        if self.burst is not None and rate is None:
            raise ValueError("burst needs requests_per_s beside it.")
        counts = {
            "burst": self.burst,
            "requests_per_min": self.requests_per_min,
            "tokens_per_min": self.tokens_per_min,
            "concurrent": self.concurrent,
        }
        for name, value in counts.items():
            if value is not None and not 1 <= value <= _MOST:
                raise ValueError(
                    f"{name} is {value}: expected at least 1; to let nothing through, disable the key."
                )
        if self.budget is not None and not (math.isfinite(self.budget.amount) and self.budget.amount > 0):
            raise ValueError(f"budget.amount is {self.budget.amount:g}: expected more than 0.")


DEFAULT_LIMITS: Final = Limits(requests_per_s=100.0, burst=500)


@dataclass(frozen=True, slots=True)
class LevelLimits:
    """The limits of one level. `name` is the key's public id, or the name of the service or the tenant."""

    level: Level
    name: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Meter:
    """For OpenAI's `x-ratelimit-*` headers: the most that may come at once, what is left of it now, and the
    seconds until all of it is back."""

    limit: int
    remaining: int
    reset_s: float


@dataclass(slots=True, eq=False)
class Grant:
    """The request may go on; `Limiter.settle` is to be called for it on every exit.

    `requests` and `tokens` are the tightest of their kind; None where nothing of that kind is limited.
    `is_local` says that the store did not answer and that this worker decided alone.
    """

    requests: Meter | None
    tokens: Meter | None
    is_local: bool


@dataclass(frozen=True, slots=True)
class Refusal:
    """The request may not go on, and nothing was taken for it.

    `limit` names the limit, such as "key requests per minute". `retry_after_s` is when a request like this
    one fits into all limits if nobody else comes (a second where it waits for running ones to end); None says
    that waiting cannot help.
    """

    limit: str
    retry_after_s: float | None
    requests: Meter | None
    tokens: Meter | None
    is_local: bool


@dataclass(frozen=True, slots=True)
class LiveLimit:
    """One limit as it stands. `reset_s` is when all of it is back; None where that depends on running requests."""

    level: Level
    name: str
    kind: Kind
    capacity: float
    remaining: float
    reset_s: float | None


@dataclass(frozen=True, slots=True)
class LimiterState:
    """For readiness and metrics. `is_shared` is False from the first decision without the store to the next
    one with it; `since_s` (monotonic) is when that changed. `alone` counts decisions without the store."""

    policy: StorePolicy
    is_shared: bool
    since_s: float
    alone: int
    leases: int
