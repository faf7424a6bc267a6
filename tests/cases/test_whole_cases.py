"""A whole `echogate serve` under what brought others down: silent collectors, signals, workers, slow stores."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.cases.speaking import chat_body
from tests.e2e.pool_deployment import deployed_pools
from tests.gateway.otlp import black_hole, http_collector
from tests.running import streamed_text
from tests.scripted import ScriptedUpstream
from tests.valkey import running_valkey

CHAT = "/v1/chat/completions"


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def test_with_a_collector_that_never_answers_a_signal_still_ends_it_in_order(tmp_path: Path) -> None:
    """A stream that has to go on for a while is finished, then everything ends within the grace, with status 0."""
    with black_hole() as endpoint:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        async with (
            ScriptedUpstream(words=40) as upstream,
            deployed_pools(
                tmp_path, {"m1": [upstream.base_url]}, env=env, server={"grace_s": 30}
            ) as echogate,
        ):
            key = (await echogate.create_key())["key"]
            for number in range(20):
                assert (await echogate.ask(f"question {number}", key=key)).status_code == 200
            upstream.chunk_delay_s = 0.05
            async with (
                httpx.AsyncClient(base_url=echogate.url, timeout=60, trust_env=False) as client,
                client.stream(
                    "POST", CHAT, content=chat_body("last", stream=True), headers=bearer(key)
                ) as reply,
            ):
                lines = reply.aiter_lines()
                heard = [await anext(lines)]
                os.kill(echogate.child.pid, signal.SIGTERM)
                heard += [line async for line in lines]
            assert heard[-2:] == ["data: [DONE]", ""] or heard[-1] == "data: [DONE]"
            assert await asyncio.wait_for(echogate.child.wait(), 30) == 0


@pytest.mark.full  # whole starts and ends of processes
@pytest.mark.parametrize("workers", [1, 2, 4])
async def test_each_worker_exports_its_own_spans_exactly_once(tmp_path: Path, workers: int) -> None:
    with http_collector() as collector:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.endpoint, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        async with (
            ScriptedUpstream() as upstream,
            deployed_pools(
                tmp_path, {"m1": [upstream.base_url]}, env=env, server={"workers": workers}
            ) as echogate,
        ):
            await echogate.wait_ready()
            key = (await echogate.create_key())["key"]
            replies = [await echogate.ask(f"question {number}", key=key) for number in range(40)]
        # It has ended, so everything has been sent.
        roots = [one for one in collector.spans if one.span.name == f"POST {CHAT}"]
        assert Counter(one.span.trace_id.hex() for one in roots) == Counter(
            reply.headers["x-trace-id"] for reply in replies
        )
        assert len({one.resource["service.instance.id"] for one in roots}) == workers
        ids = [(one.span.trace_id, one.span.span_id) for one in collector.spans]
        assert len(ids) == len(set(ids))


@pytest.mark.full  # four workers on a slow store for a while
async def test_with_many_workers_a_slow_store_and_clients_that_leave_nobody_gets_anothers_answer(
    tmp_path: Path,
) -> None:
    async with running_valkey() as valkey, slowed(valkey.url) as url, ScriptedUpstream() as upstream:
        upstream.chunk_delay_s = 0.002
        store = {"durable": url, "cache": url, "deadline_ms": 200}
        async with deployed_pools(
            tmp_path, {"m1": [upstream.base_url]}, server={"workers": 4}, store=store
        ) as echogate:
            await echogate.wait_ready()
            keys = [(await echogate.create_key(tenant))["key"] for tenant in ("acme", "umbrella", "initech")]
            heard = Counter[str]()

            async def client(number: int) -> None:
                chance, key = random.Random(number), keys[number % 3]
                async with httpx.AsyncClient(base_url=echogate.url, timeout=60, trust_env=False) as http:
                    for turn in range(12):
                        word = f"nonce-{number // 6}-{turn % 4}"
                        body = chat_body(f"Say {word} to {number % 3}", stream=True)
                        async with http.stream("POST", CHAT, content=body, headers=bearer(key)) as reply:
                            if chance.random() < 0.3:
                                continue
                            text = (
                                streamed_text((await reply.aread()).decode())
                                if reply.status_code == 200
                                else ""
                            )
                        heard[f"{reply.status_code} {reply.headers.get('x-cache')}"] += 1
                        assert reply.status_code in (200, 503)
                        if reply.status_code == 200:
                            assert [each for each in text.split() if each.startswith("nonce-")] == [word]

            await asyncio.gather(*(client(number) for number in range(90)))
        assert heard["200 MISS"]
        assert heard["200 HIT-EXACT"]


@asynccontextmanager
async def slowed(url: str) -> AsyncIterator[str]:
    """The URL of the same store, where everything sent and answered takes up to 50 ms longer."""
    place = url.removeprefix("unix://")
    pumps: set[asyncio.Task[Any]] = set()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                # Later, but never before what came before it.
                due = max(due + 1e-6, loop.time() + random.uniform(0, 0.05))
                loop.call_at(due, writer.write, data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_unix_connection(place)
        pumps.update(asyncio.create_task(pump(*way)) for way in ((reader, back), (there, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        try:
            yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
