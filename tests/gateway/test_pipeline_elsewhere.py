"""Two data planes on one store, as two workers or replicas are: a question asked at both is asked of a backend once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually, running_valkey

TEXT = "What is a kettle for?"


@asynccontextmanager
async def two_planes(upstream: ScriptedUpstream, **cache: Any) -> AsyncIterator[list[RunningGateway]]:
    async with (
        running_valkey() as valkey,
        running_gateway(upstream, valkey=valkey, cache=cache) as one,
        running_gateway(upstream, valkey=valkey, cache=cache) as other,
    ):
        yield [one, other]


async def ask_both(
    planes: list[RunningGateway], upstream: ScriptedUpstream, **fields: Any
) -> list[httpx.Response]:
    """The second once the first has asked the backend."""
    first = asyncio.create_task(planes[0].chat(TEXT, **fields))
    await eventually(lambda: len(upstream.requests) == 1)
    return [await planes[1].chat(TEXT, **fields), await first]


async def test_the_second_gets_the_answer_of_the_first_and_is_not_charged() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream) as planes:
        upstream.first_byte_delay_s = 0.5
        second, first = await ask_both(planes, upstream)
        assert len(upstream.requests) == 1
        assert second.headers.get_list("x-cache") == ["MISS"]
        assert second.headers.get_list("x-cache-reason") == ["shared"]
        assert second.headers["x-echogate-backend"] == first.headers["x-echogate-backend"]
        assert second.json()["choices"] == first.json()["choices"]
        assert second.json()["usage"] == first.json()["usage"]
        assert second.json()["id"] != first.json()["id"]


async def test_a_stream_waits_a_second_at_most_and_then_has_its_own() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream) as planes:
        upstream.first_byte_delay_s = 2.5
        began = time.monotonic()
        second, first = await ask_both(planes, upstream, stream=True)
        assert len(upstream.requests) == 2
        assert second.headers["x-cache-reason"] != "shared"
        assert second.text.endswith("data: [DONE]\n\n")
        assert first.text.endswith("data: [DONE]\n\n")
        assert time.monotonic() - began > 3  # it did wait


async def test_a_stream_gets_a_short_answer_of_another_as_a_stream() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream) as planes:
        upstream.first_byte_delay_s = 0.3
        second, _ = await ask_both(planes, upstream, stream=True)
        assert len(upstream.requests) == 1
        assert second.headers["x-cache-reason"] == "shared"
        assert second.text.endswith("data: [DONE]\n\n")


async def test_where_the_first_fails_the_second_asks_for_itself() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream) as planes:
        upstream.first_byte_delay_s = 0.3
        upstream.reply_json({"error": {"message": "no"}}, status=400)
        first = asyncio.create_task(planes[0].chat(TEXT))
        await eventually(lambda: len(upstream.requests) == 1)
        second = await planes[1].chat(TEXT)
        assert (second.status_code, (await first).status_code) == (200, 400)


async def test_a_first_that_leaves_makes_way_at_once() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream, claim_ms=30_000) as planes:
        upstream.first_byte_delay_s = 20
        first = asyncio.create_task(planes[0].chat(TEXT))
        await eventually(lambda: len(upstream.requests) == 1)
        second = asyncio.create_task(planes[1].chat(TEXT))
        await asyncio.sleep(0.1)
        upstream.first_byte_delay_s = 0
        first.cancel()
        async with asyncio.timeout(10):
            assert (await second).status_code == 200
        assert len(upstream.requests) == 2


async def test_with_claims_off_each_asks_for_itself() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream, claim_ms=0) as planes:
        upstream.first_byte_delay_s = 0.3
        await ask_both(planes, upstream)
        assert len(upstream.requests) == 2


async def test_a_refresh_neither_waits_nor_is_kept_from_writing() -> None:
    async with ScriptedUpstream() as upstream, two_planes(upstream) as planes:
        upstream.first_byte_delay_s = 0.5
        first = asyncio.create_task(planes[0].chat(TEXT))
        await eventually(lambda: len(upstream.requests) == 1)
        upstream.first_byte_delay_s = 0
        fresh = await planes[1].chat(TEXT, headers={"cache-control": "no-cache"})
        assert fresh.headers["x-cache"] == "REFRESH"
        assert not first.done()
        await first
        assert len(upstream.requests) == 2
