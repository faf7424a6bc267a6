"""What limits cost a request: this process's CPU for each call of the limiter, and the store's time for its script.

`make bench NAME=limits` prints a table and, as its last line, one JSON object. A request's other store command is a
GET of an answer; what the limiter adds to it, when both leave in one write, is `gathered` less `get`.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import uvloop

from auth import Budget, Grant, LevelLimits, Limiter, Limits, StoreLimits
from gateway.store.client import StoreClient
from tests.valkey import running_valkey

_ROUNDS, _CALLS = 7, 4_000
_PLENTY = 1_000_000
_EVERYTHING = Limits(
    requests_per_s=5_000, burst=_PLENTY, requests_per_min=_PLENTY, tokens_per_min=1_000 * _PLENTY,
    concurrent=10_000, budget=Budget(1e12, "tokens", "month"),
)  # fmt: skip

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class Caller:
    limits: tuple[LevelLimits, ...]
    key_id: str
    tenant: str = "acme"


REQUESTS = Caller((LevelLimits("key", "requests", Limits(requests_per_s=5_000, burst=_PLENTY)),), "requests")
ALL_OF_A_KEY = Caller((LevelLimits("key", "all", _EVERYTHING),), "all")
ALL_LEVELS = Caller(
    (
        LevelLimits("key", "levels", _EVERYTHING),
        LevelLimits("service", "web", _EVERYTHING),
        LevelLimits("tenant", "acme", _EVERYTHING),
    ),
    "levels",
)


class Store:
    """The store of a run, and what its scripts cost it."""

    def __init__(self, client: StoreClient) -> None:
        self.client = client

    async def forget(self) -> None:
        await self.client.execute("CONFIG", "RESETSTAT")

    async def us_per_script(self) -> float:
        """0 where none ran."""
        lines: list[str] = (await self.client.execute("INFO", "commandstats")).decode().splitlines()
        stats = dict(
            line.removeprefix("cmdstat_").split(":") for line in lines if line.startswith("cmdstat_")
        )
        fields = dict(field.split("=") for field in stats.get("evalsha", "usec_per_call=0").split(","))
        return float(fields["usec_per_call"])


async def cpu_us(call: Call, *, at_once: int) -> float:
    """The median over the rounds of the CPU of one call, so many always under way."""

    async def caller() -> None:
        for _ in range(_CALLS // at_once):
            await call()

    await caller()
    rounds = []
    for _ in range(_ROUNDS):
        started = time.process_time()
        await asyncio.gather(*(caller() for _ in range(at_once)))
        rounds.append((time.process_time() - started) / _CALLS * 1e6)
    return statistics.median(rounds)


def calls(limiter: Limiter, store: StoreClient) -> dict[str, Call]:
    def taking(who: Caller) -> Call:
        async def take() -> None:
            answer = await limiter.take(who, tokens=600)
            assert isinstance(answer, Grant)
            limiter.settle(answer, tokens=300)

        return take

    async def get() -> None:
        await store.execute("GET", "an answer")

    async def gathered() -> None:
        taken = limiter.take(REQUESTS)
        found = store.execute("GET", "an answer")
        assert isinstance(await taken, Grant)
        await found

    return {
        "get": get,
        "requests alone": taking(REQUESTS),
        "requests and get gathered": gathered,
        "all kinds of a key, settled": taking(ALL_OF_A_KEY),
        "all kinds of three levels, settled": taking(ALL_LEVELS),
    }


async def main() -> None:
    figures: dict[str, dict[str, float]] = {}
    async with (
        running_valkey() as valkey,
        StoreClient.open(valkey.url, deadline_s=5) as client,
        Limiter(StoreLimits(client), live_workers=lambda: 1) as limiter,
    ):
        await client.execute("SET", "an answer", b"x" * 1_500)
        store = Store(client)
        for name, call in calls(limiter, client).items():
            await store.forget()
            cpu = {f"cpu_us_{at_once}": round(await cpu_us(call, at_once=at_once), 1) for at_once in (1, 16)}
            figures[name] = cpu | {"script_us": round(await store.us_per_script(), 1)}
    print(f"{'':36}{'CPU µs, alone':>16}{'16 at once':>12}{'store µs/script':>17}")
    for name, found in figures.items():
        print(f"{name:36}{found['cpu_us_1']:16}{found['cpu_us_16']:12}{found['script_us']:17}")
    added = {
        at: round(figures["requests and get gathered"][at] - figures["get"][at], 1)
        for at in ("cpu_us_1", "cpu_us_16")
    }
    print(f"what a limit adds to a request's GET: {added['cpu_us_1']} µs, {added['cpu_us_16']} µs")
    print(json.dumps({"bench": "limits", "added": added} | figures))


if __name__ == "__main__":
    uvloop.run(main())
