"""Two workers here and one on another host over one cache store answer alike and, whatever is killed, never wrongly."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio

from gateway.admin.stored_keys import mint
from tests.cache.prepared import prepared_model
from tests.gateway.serving import descendants, is_alive
from tests.scripted import Call, ScriptedUpstream, Wire, completion
from tests.valkey import Valkey, running_valkey

from .deployment import Deployment, until
from .pool_deployment import deployed_pools

# The first is asked about only by those who look whether all hit.
CITIES = ("Tokyo", "Lima", "Oslo", "Cairo", "Perth", "Dublin", "Madrid", "Boston")
ONLY_IF_CACHED = {"cache-control": "only-if-cached"}


def asked(city: str) -> str:
    return f"How long is the flight from London to {city}?"


def alike(city: str) -> str:
    return f"How long does the flight from London to {city} take?"


async def answer_by_city(call: Call, wire: Wire) -> None:
    """So that an answer tells whether it was given to this question."""
    text = call.json["messages"][-1]["content"]
    (city,) = [city for city in CITIES if city in text]
    await wire.json(completion(f"It is far to {city}."))


@dataclass
class Hosts:
    here: Deployment
    there: Deployment
    cache_store: Valkey
    key: str
    seen: Counter[str] = field(default_factory=Counter)

    async def ask(self, echogate: Deployment, text: str, **headers: str) -> str | None:
        """What the cache did; None where no answer came. An answer to another city's question fails the test."""
        try:
            reply = await echogate.ask(text, key=self.key, headers=headers)
        except httpx.TransportError:
            return None  # the worker was killed
        if reply.status_code != 200:
            assert reply.status_code in (504, 503), reply.text
            return None
        (city,) = [city for city in CITIES if city in text]
        assert reply.json()["choices"][0]["message"]["content"] == f"It is far to {city}."
        outcome = reply.headers["x-cache"]
        self.seen[outcome] += 1
        return str(outcome)

    async def all_hit(self, city: str) -> bool:
        """By meaning, in every worker: which of the two here takes a connection is the kernel's choice."""
        asking = [self.ask(self.here, alike(city), **ONLY_IF_CACHED) for _ in range(10)]
        asking += [self.ask(self.there, alike(city), **ONLY_IF_CACHED) for _ in range(2)]
        return set(await asyncio.gather(*asking)) == {"HIT-SEMANTIC"}

    async def keep_asking(self) -> None:
        dice = random.Random(1)
        while True:
            city, form = dice.choice(CITIES[1:]), dice.choice((asked, alike))
            await self.ask(dice.choice((self.here, self.there)), form(city))

    async def taught_again(self) -> None:
        async def is_so() -> bool:
            await self.ask(self.here, asked(CITIES[0]))
            return await self.all_hit(CITIES[0])

        await until(is_so, within_s=30)


def workers_of(echogate: Deployment) -> list[int]:
    return [pid for pid, command in descendants(echogate.child.pid).items() if "spawn_main" in command]


async def noticed(echogate: Deployment) -> bool:
    """That the store is another one."""
    told = (await echogate.admin.get("/admin/cache/index")).raise_for_status().json()
    return bool(told["workers"]) and told["rebuilt"].get("reset", 0) > 0


@pytest_asyncio.fixture
async def hosts(tmp_path: Path) -> AsyncIterator[Hosts]:
    one, other = tmp_path / "one", tmp_path / "other"
    _, admin_key = mint("first", "owner", at_s=time.time())
    for folder in (one, other):
        (folder / "data").mkdir(parents=True, mode=0o700)
        for name, key in (("admin.key", admin_key), ("audit.key", "ab" * 32)):  # which the hosts share
            (folder / "data" / name).write_text(key, encoding="ascii")
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream())
        upstream.handler = answer_by_city
        durable = await stack.enter_async_context(running_valkey())
        cache = await stack.enter_async_context(running_valkey())
        pools = {"m1": [{"url": upstream.base_url, "name": "a", "model": "m", "revision": "r1"}]}
        shared: dict[str, Any] = {
            "store": {"durable": durable.url, "cache": cache.url, "deadline_ms": 5000},
            "cache": {
                "semantic_deadline_ms": 5000,
                "snapshot_every_s": 1,
                "embedder": {"model": str(prepared_model())},
                "audits": {"served_share": 0},
            },
        }
        here, there = await asyncio.gather(
            stack.enter_async_context(deployed_pools(one, pools, server={"workers": 2}, **shared)),
            stack.enter_async_context(deployed_pools(other, pools, **shared)),
        )
        await here.wait_ready()
        yield Hosts(here, there, cache, (await here.create_key())["key"])


async def test_workers_and_hosts_answer_alike_and_never_wrongly_whatever_is_killed(hosts: Hosts) -> None:
    await hosts.taught_again()
    asking = [asyncio.create_task(hosts.keep_asking()) for _ in range(4)]

    victims = [workers_of(hosts.here)[0], workers_of(hosts.there)[0]]
    for victim in victims:
        os.kill(victim, signal.SIGKILL)  # in the middle of writing, as likely as not

    async def are_replaced() -> bool:
        serving = [await echogate.metric("echogate_workers") for echogate in (hosts.here, hosts.there)]
        return not any(is_alive(victim) for victim in victims) and serving == [2, 1]

    await until(are_replaced, within_s=60)
    await hosts.taught_again()

    await hosts.cache_store.kill()
    await hosts.cache_store.start()
    await hosts.taught_again()

    await hosts.cache_store.kill()
    shutil.rmtree(hosts.cache_store.folder / "appendonlydir")
    await hosts.cache_store.start()
    await hosts.taught_again()
    for echogate in (hosts.here, hosts.there):
        await until(lambda host=echogate: noticed(host), within_s=10)  # type: ignore[misc]

    for task in asking:
        if task.done():
            task.result()  # which raises what it found wrong
        task.cancel()
    with suppress(asyncio.CancelledError):
        await asyncio.gather(*asking)
    assert hosts.seen["HIT-SEMANTIC"] > 0
    assert hosts.seen["MISS"] > len(CITIES)
