"""A real model server that dies in the middle of an answer, and a real client that does not wait for the end."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import openai
import pytest

from gateway.settings.reading import Settings
from tests.backends.llama import Llama, running_llama
from tests.e2e.asking import PATIENT, question, sdk
from tests.running import RunningGateway, running_gateway
from tests.valkey import eventually

# The model would go on for ten seconds and more.
LONG: dict[str, Any] = {"stream": True, "max_tokens": 900, "extra_body": {"ignore_eos": True}}


def preferring(first: str, *others: str) -> Settings:
    """A pool whose first member is asked as long as it can be."""
    members = [{"url": first, "name": "first", "model": "m", "revision": "r1", "weight": 1000}]
    members += [
        {"url": url, "name": f"other-{at}", "model": "m", "revision": "r1"} for at, url in enumerate(others)
    ]
    sections: dict[str, Any] = {
        "pools": {"m1": {"members": members}},
        "cache": {"embedder": {"kind": "none"}},
    }
    return Settings(**sections, **PATIENT)


def is_at_rest(gateway: RunningGateway) -> Callable[[], bool]:
    return lambda: gateway.plane.in_flight == 0 and set(gateway.plane.pools.in_flight().values()) == {0}


async def test_a_server_killed_in_mid_stream_costs_one_answer_and_stores_nothing(
    llamas: tuple[str, str],
) -> None:
    with running_llama() as victim:
        async with (
            running_gateway(settings=preferring(victim.base_url, llamas[0])) as gateway,
            sdk(gateway) as client,
        ):
            ask = client.chat.completions.with_raw_response.create
            reply = await ask(**question(**LONG))
            assert reply.headers["x-echogate-backend"] == "first"
            with pytest.raises(openai.APIError, match="model server"):
                await read_and_kill(reply.parse(), victim)
            await eventually(is_at_rest(gateway))
            # The same question, short: were anything of the first answer kept, it would be served here.
            again = await ask(**question(**LONG))
            assert (again.headers["x-cache"], again.headers["x-echogate-backend"]) == ("MISS", "other-0")
            await again.parse().close()
            await eventually(is_at_rest(gateway))


async def read_and_kill(stream: openai.AsyncStream[Any], victim: Llama) -> None:
    read = 0
    async for _ in stream:
        read += 1
        if read == 5:
            victim.process.send_signal(signal.SIGKILL)


async def test_a_client_that_leaves_frees_the_servers_slot_within_a_second() -> None:
    with running_llama() as server:
        async with running_gateway(settings=preferring(server.base_url)) as gateway, sdk(gateway) as client:
            stream = await client.chat.completions.create(**question(**LONG))
            async for _ in stream:
                break
            assert await asyncio.to_thread(server.busy_slots) == 1
            await stream.close()
            async with asyncio.timeout(1.0):
                while await asyncio.to_thread(server.busy_slots):  # noqa: ASYNC110 - another process has no event
                    await asyncio.sleep(0.02)
            await eventually(is_at_rest(gateway))
