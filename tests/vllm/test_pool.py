"""A real vLLM and a real llama.cpp in one pool: routing by what they say, traces, drains, and the engine's death."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tests.backends.llama import Llama
from tests.e2e.deployment import until
from tests.e2e.pool_deployment import backends, until_backend
from tests.gateway.otlp import Collector

from .asking import Client, Stream, both
from .server import CONTEXT, MODEL, Vllm, slowed

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(420)]

LONG = CONTEXT - 100
# What a client may see of a death in mid-stream. A quick engine may have made the whole answer before it died; cut by
# `max_tokens`, that is not stored either.
ENDINGS = {"full", "error-frame"}


@asynccontextmanager
async def overloaded(vllm: Vllm) -> AsyncIterator[None]:
    """By others than the gateway: more streams than it has slots, together longer than its KV memory."""

    async def read_all(number: int) -> None:
        body = {
            "model": MODEL,
            "prompt": f"number {number}",
            "max_tokens": LONG,
            "ignore_eos": True,
            "stream": True,
        }
        async with httpx.AsyncClient(timeout=120, trust_env=False) as http:
            while True:
                async with http.stream("POST", f"{vllm.base_url}/v1/completions", json=body) as reply:
                    await reply.aread()

    tasks = [asyncio.create_task(read_all(number)) for number in range(48)]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def until_idle(client: Client, vllm: Vllm) -> None:
    async def is_idle() -> bool:
        told = await backends(client.echogate)
        return vllm.open_requests == 0 and all(each["in_flight"] == 0 for each in told.values())

    await until(is_idle, within_s=20)


async def test_vllms_span_is_a_child_of_ours(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        reply = await client.ask()
        assert reply.headers["x-echogate-backend"] == "vllm"

        def spans() -> dict[str, tuple[bytes, bytes]]:
            trace_id = reply.headers["x-trace-id"]
            of_trace = [each.span for each in collector.spans if each.span.trace_id.hex() == trace_id]
            return {span.name: (span.span_id, span.parent_span_id) for span in of_trace}

        async def are_there() -> bool:
            return {"llm_request", "chat m"} <= spans().keys()

        await until(are_there, within_s=30)
        assert spans()["llm_request"][1] == spans()["chat m"][0]


async def test_vllm_takes_what_is_added_for_it(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        reply = await client.ask()
        assert (reply.status_code, reply.headers["x-echogate-backend"]) == (200, "vllm")
        assert reply.json()["id"].startswith("chatcmpl-req_")  # our own id of the request


async def test_a_refusal_comes_in_openais_shape(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        reply = await client.ask("word " * 4 * CONTEXT)
        assert reply.status_code == 400
        error = reply.json()["error"]
        assert error.keys() == {"message", "type", "param", "code"}
        assert isinstance(error["code"], str)
        assert str(vllm.port) not in reply.text


async def test_routing_follows_a_real_queue_and_says_what_is_short(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector) as client:
        async with overloaded(vllm):

            async def is_queueing() -> bool:
                said = (await backends(client.echogate))["vllm"]["signals"]
                return said["waiting"] is not None and said["waiting"] > 2

            chosen = []
            for _ in range(4):
                await until(is_queueing, within_s=60)  # a quick engine may have caught up for a moment
                chosen.append((await client.ask()).headers["x-echogate-backend"])
            assert chosen.count("llama") >= 3, chosen

            async def is_diagnosed() -> bool:
                findings = (await client.echogate.admin.get("/admin/backends/findings")).json()["data"]
                return bool({each["shortage"] for each in findings if each["backend"] == "vllm"})

            await until(is_diagnosed, within_s=30)

            async def is_counted() -> bool:
                name = "echogate_backend_engine_requests"
                return await client.echogate.metric(name, backend="vllm", state="waiting") > 0

            await until(is_counted, within_s=30)
        await until_idle(client, vllm)

        async def is_chosen_again() -> bool:
            return (await client.ask()).headers["x-echogate-backend"] == "vllm"

        await until(is_chosen_again, within_s=30)


async def test_a_client_that_leaves_frees_the_slot(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        seen = Stream()
        reading = asyncio.create_task(client.stream("count", seen, max_tokens=LONG))
        await asyncio.wait_for(seen.has_content.wait(), 30)
        reading.cancel()
        await asyncio.wait([reading])
        await until_idle(client, vllm)


async def test_a_drained_server_finishes_what_it_has(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        seen = Stream()
        reading = asyncio.create_task(client.stream("count on", seen, max_tokens=LONG))
        await asyncio.wait_for(seen.has_content.wait(), 30)
        event = {"type": "cloud.spot.preemption", "source": "test", "id": "1", "subject": "vllm"}
        taken = await client.echogate.admin.post("/admin/events", json=event)
        assert taken.json()["backends"] == ["vllm"]
        assert (await client.ask()).headers["x-echogate-backend"] == "llama"
        await reading
        assert (seen.backend, seen.ending) == ("vllm", "full")
        await until_backend(client.echogate, "vllm", state="drained", drained_for="preemption")
        assert await client.echogate.metric("echogate_recovery_seconds_count", cause="preemption") == 1
        await client.echogate.admin.post("/admin/backends/vllm/undrain")
        assert (await client.ask()).headers["x-echogate-backend"] == "vllm"


async def test_an_engine_that_hangs_is_given_up(
    tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    timeouts = {"idle_timeout_s": 2}
    async with both(tmp_path, vllm, llama, collector, llama_tier=1, timeouts=timeouts) as client:
        seen = Stream()
        async with slowed(vllm):
            reading = asyncio.create_task(client.stream("a long story", seen, max_tokens=LONG))
            await asyncio.wait_for(seen.has_content.wait(), 30)
        engine = vllm.engine
        os.kill(engine, signal.SIGSTOP)
        try:
            await asyncio.wait_for(reading, 30)
        finally:
            os.kill(engine, signal.SIGCONT)
        assert seen.ending in ENDINGS
        assert not await client.is_stored("a long story", max_tokens=LONG)
        await until_idle(client, vllm)


async def test_the_engine_is_killed(tmp_path: Path, vllm: Vllm, llama: Llama, collector: Collector) -> None:
    """The last of this file: nothing of the server is left."""
    async with both(tmp_path, vllm, llama, collector, llama_tier=1) as client:
        streams = [Stream() for _ in range(4)]
        texts = [f"story {number}" for number in range(4)]
        async with slowed(vllm):
            reading = [
                asyncio.create_task(client.stream(text, seen, max_tokens=LONG))
                for text, seen in zip(texts, streams, strict=True)
            ]
            await asyncio.gather(*(asyncio.wait_for(seen.has_content.wait(), 60) for seen in streams))
        os.kill(vllm.engine, signal.SIGKILL)
        replies = [await client.ask() for _ in range(5)]
        await asyncio.wait_for(asyncio.gather(*reading), 60)
        assert {seen.ending for seen in streams} <= ENDINGS
        assert [reply.status_code for reply in replies] == [200] * 5
        assert {reply.headers["x-echogate-backend"] for reply in replies} == {"llama"}
        assert not any([await client.is_stored(text, max_tokens=LONG) for text in texts])
        told = await backends(client.echogate)
        assert {name: each["in_flight"] for name, each in told.items()} == {"vllm": 0, "llama": 0}
