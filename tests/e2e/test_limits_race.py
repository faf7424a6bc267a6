"""Limits under race: `echogate serve` with four workers, and hundreds of clients that all use one key."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import signal
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from auth import LevelLimits, Limits, Service, StoreDirectory, Tenant, mint
from auth.limits.levels import Buckets
from gateway.store.client import StoreClient
from tests.e2e.deployment import Deployment, deployed
from tests.e2e.test_serve import server_of, workers_of
from tests.scripted import Call, ScriptedUpstream, Wire, delta
from tests.scripted.messages import usage

WORKERS, CLIENTS, RUN_S = 4, 200, 5.0
LEASE_S = 15.0

pytestmark = [pytest.mark.full, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as scripted:
        yield scripted


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echogate(upstream: ScriptedUpstream) -> AsyncIterator[Deployment]:
    # Not pytest's tmp_path: its length may exceed what the store's socket path can hold.
    with tempfile.TemporaryDirectory(prefix="eg-") as folder:
        async with deployed(Path(folder) / "data", upstream.base_url, workers=WORKERS) as deployment:
            await deployment.wait_ready()
            yield deployment


@asynccontextmanager
async def durable_store(echogate: Deployment) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(
        f"unix://{echogate.data_dir / 'store' / 'valkey.sock'}", deadline_s=5
    ) as store:
        yield store


async def key_of_new_tenant(echogate: Deployment, limits: Limits) -> str:
    tenant, now_s = f"tenant-{time.time_ns():x}", time.time()
    record, key = mint(tenant=tenant, service="web", name="", created_at_s=now_s, limits=limits)
    async with durable_store(echogate) as store:
        directory = StoreDirectory(store)
        await directory.add(Tenant(tenant, now_s))
        await directory.add(Service(tenant, "web", now_s))
        await directory.add(record)
    return key


@dataclass
class Tally:
    """What all clients got together, and when the first and the last answer were complete."""

    started_s: float
    passed: int = 0
    refused: int = 0
    tokens: int = 0
    first_s: float = math.inf
    last_s: float = 0.0

    def most(self, rate: float, burst: float) -> float:
        """What may have passed, from before the first request was sent to the last answer."""
        return rate * (self.last_s - self.started_s) + burst

    def wanted(self, rate: float, burst: float) -> float:
        """What could have passed while there were clients; 200 connections are not made in no time."""
        return rate * (self.started_s + RUN_S - self.first_s) + burst


async def hammer(echogate: Deployment, key: str, **fields: Any) -> Tally:
    """All clients at once for as long as a run lasts, each with its next question as soon as it may."""
    tally = Tally(started_s=time.monotonic())
    connector = aiohttp.TCPConnector(limit=CLIENTS)
    headers = {"authorization": f"Bearer {key}", "x-cache-mode": "off"}
    async with aiohttp.ClientSession(echogate.url, connector=connector, headers=headers) as session:
        await asyncio.gather(*(client(session, tally, fields) for _ in range(CLIENTS)))
    return tally


async def client(session: aiohttp.ClientSession, tally: Tally, fields: dict[str, Any]) -> None:
    body = {"model": "m1", "messages": [{"role": "user", "content": "What is a kettle for?"}]} | fields
    while time.monotonic() < tally.started_s + RUN_S:
        async with session.post("/v1/chat/completions", json=body) as reply:
            text = await reply.text()
        if reply.status == 429:
            tally.refused += 1
            await asyncio.sleep(random.uniform(0.1, 0.3))
            continue
        assert reply.status == 200, text
        tally.passed += 1
        tally.tokens += tokens_of(text)
        tally.first_s = min(tally.first_s, time.monotonic())
        tally.last_s = time.monotonic()


def tokens_of(reply: str) -> int:
    """Of a JSON answer or of a stream."""
    found = reply.rpartition('"total_tokens":')[2]
    return int("".join(digit for digit in found.split("}")[0].split(",")[0] if digit.isdigit()))


def of_any_length(_: Call, wire: Wire) -> Any:
    text = "word " * random.randint(20, 57)
    last = delta(finish="stop") | {"usage": usage(text, 1)}
    return wire.stream([*(delta(word + " ") for word in text.split()), last, "[DONE]"])


async def test_requests_of_all_workers_together_use_the_limit_and_no_more(
    echogate: Deployment, upstream: ScriptedUpstream
) -> None:
    rate, burst = 50, 50
    key = await key_of_new_tenant(echogate, Limits(requests_per_s=rate, burst=burst))

    tally = await hammer(echogate, key)

    print(f"{tally} used={tally.passed / tally.wanted(rate, burst):.1%}")
    assert tally.refused > tally.passed  # the clients wanted much more
    assert 0.98 * tally.wanted(rate, burst) <= tally.passed <= tally.most(rate, burst)


async def test_tokens_of_concurrent_streams_use_the_limit_and_no_more(
    echogate: Deployment, upstream: ScriptedUpstream
) -> None:
    per_min = 12_000
    key = await key_of_new_tenant(echogate, Limits(tokens_per_min=per_min))
    upstream.handler = of_any_length

    fields = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": 64}
    tally = await hammer(echogate, key, **fields)

    upstream.handler = None
    print(f"{tally} used={tally.tokens / tally.wanted(per_min / 60, per_min):.1%}")
    assert tally.refused > 0
    assert 0.98 * tally.wanted(per_min / 60, per_min) <= tally.tokens <= tally.most(per_min / 60, per_min)


class Held:
    """Streams that go on until they are released, as the model server sees them."""

    def __init__(self) -> None:
        self.released = asyncio.Event()
        self.running = self.peak = 0

    async def __call__(self, call: Call, wire: Wire) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await wire.head(content_type="text/event-stream", transfer_encoding="chunked")
            await wire.chunk(delta("so far"))
            leaving = asyncio.create_task(call.wait_closed(60))
            releasing = asyncio.create_task(self.released.wait())
            _, waiting = await asyncio.wait((leaving, releasing), return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            await wire.chunk(delta(finish="stop"))
            await wire.chunk("[DONE]")
            await wire.send(b"0\r\n\r\n")
        finally:
            self.running -= 1


class Streams:
    """Clients that each hold one stream open. `workers` has the process behind each of them."""

    def __init__(self, echogate: Deployment, key: str) -> None:
        self._echogate = echogate
        self._key = key
        self._stack = AsyncExitStack()
        self.workers: list[int] = []

    async def __aenter__(self) -> Streams:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def open(self) -> int:
        """The status; of a stream that opens its first words have come."""
        try:
            reply = await self._asked()
        except aiohttp.ClientConnectionError:  # a killed worker takes its connections along
            reply = await self._asked()
        if reply.status != 200:
            error = json.loads(await reply.text())["error"]
            assert "concurrent" in error["message"]
            return reply.status
        assert "so far" in (await reply.content.readline()).decode()
        assert reply.connection is not None
        assert reply.connection.transport is not None
        port = reply.connection.transport.get_extra_info("sockname")[1]
        self.workers.append(server_of(port, workers_of(self._echogate)))
        return reply.status

    async def _asked(self) -> aiohttp.ClientResponse:
        """On a connection of its own, which any of the workers may take."""
        session = await self._stack.enter_async_context(aiohttp.ClientSession(self._echogate.url))
        body = {"model": "m1", "stream": True, "messages": [{"role": "user", "content": "Tell me a tale"}]}
        headers = {"authorization": f"Bearer {self._key}", "x-cache-mode": "off"}
        return await session.post("/v1/chat/completions", json=body, headers=headers)


async def test_slots_of_a_killed_worker_are_free_again_within_a_lease(
    echogate: Deployment, upstream: ScriptedUpstream
) -> None:
    most = 5
    key = await key_of_new_tenant(echogate, Limits(concurrent=most))
    held = upstream.handler = Held()
    async with Streams(echogate, key) as streams:
        statuses = [await streams.open() for _ in range(20)]
        assert statuses.count(200) == most

        victim = streams.workers[0]
        lost = streams.workers.count(victim)
        killed_s = time.monotonic()
        os.kill(victim, signal.SIGKILL)
        assert await streams.open() == 429  # nobody knows yet that they are free
        while len(streams.workers) < most + lost:
            await streams.open()
            assert time.monotonic() < killed_s + LEASE_S + 5
            await asyncio.sleep(0.2)
        print(f"lost={lost} free after {time.monotonic() - killed_s:.1f} s")
        assert [await streams.open() for _ in range(5)] == [429] * 5
        held.released.set()
    upstream.handler = None
    assert held.peak == most

    async def all_is_given_back() -> bool:
        buckets = Buckets.of("", [LevelLimits("key", key.split("-")[1], Limits(concurrent=most))])
        async with durable_store(echogate) as store:
            return not await store.execute("KEYS", "*" + buckets.leased[0].partition("}")[2])

    deadline_s = time.monotonic() + 5
    while not await all_is_given_back():
        assert time.monotonic() < deadline_s, "a stream ended, but not its lease"
        await asyncio.sleep(0.05)
