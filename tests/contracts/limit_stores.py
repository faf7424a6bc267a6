"""The limit stores that keep one contract, and buckets to ask them for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth import Budget, LevelLimits, Limits, LimitStore, StoreLimits
from auth.limits.levels import Ask, Buckets, Taken
from auth.testing import MemoryLimits
from gateway.store.client import StoreClient
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
