"""Ways in which a real vLLM ends, each at the cost of a server: what clients see is never a silence."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.backends.llama import Llama
from tests.e2e.pool_deployment import backends, until_backend
from tests.gateway.otlp import Collector

from .asking import Client, Stream, both
from .server import CONTEXT, Vllm, slowed

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(420)]

LONG = CONTEXT - 100


async def nothing_is_left(client: Client, text: str) -> None:
    """Neither in the cache nor in the counts; and others are served."""
    assert (await client.ask()).headers["x-echogate-backend"] == "llama"
    assert not await client.is_stored(text, max_tokens=LONG)
    told = await backends(client.echogate)
    assert {name: each["in_flight"] for name, each in told.items()} == {"vllm": 0, "llama": 0}


async def test_the_api_server_is_killed(
    tmp_path: Path, mortal_vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    async with both(tmp_path, mortal_vllm, llama, collector, llama_tier=1) as client:
        seen = Stream()
        async with slowed(mortal_vllm):
            reading = asyncio.create_task(client.stream("a story", seen, max_tokens=LONG))
            await asyncio.wait_for(seen.has_content.wait(), 60)
            mortal_vllm.process.kill()
        await asyncio.wait_for(reading, 30)
        assert seen.ending in {"full", "error-frame"}  # a quick engine may have made the whole answer before
        await nothing_is_left(client, "a story")
        await until_backend(client.echogate, "vllm", is_usable=False)


async def test_a_server_that_is_told_to_end_leaves_nobody_waiting(
    tmp_path: Path, mortal_vllm: Vllm, llama: Llama, collector: Collector
) -> None:
    """On SIGTERM vLLM may finish its streams, and may fall silent in the middle: no byte, no error, no end."""
    timeouts = {"idle_timeout_s": 2}
    async with both(tmp_path, mortal_vllm, llama, collector, llama_tier=1, timeouts=timeouts) as client:
        streams = [Stream() for _ in range(4)]
        reading = [
            asyncio.create_task(client.stream(f"story {number}", seen, max_tokens=LONG))
            for number, seen in enumerate(streams)
        ]
        await asyncio.gather(*(asyncio.wait_for(seen.has_content.wait(), 60) for seen in streams))
        mortal_vllm.process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(asyncio.gather(*reading), 60)
        assert {seen.ending for seen in streams} <= {"full", "error-frame"}
        await nothing_is_left(client, "story 0")
