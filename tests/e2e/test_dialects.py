"""Completions and responses of a real model, by the official SDK, from the server and from the cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from tests.cache.prepared import prepared_model
from tests.e2e.asking import ASKED, OPPOSITE, PATIENT, SAME, sdk
from tests.running import RunningGateway, running_gateway

WAYS = [(ASKED, "MISS"), (ASKED, "HIT-EXACT"), (SAME, "HIT-SEMANTIC"), (OPPOSITE, "MISS")]


@pytest_asyncio.fixture
async def gateway(llamas: tuple[str, str]) -> AsyncIterator[RunningGateway]:
    cache = {"embedder": {"kind": "onnx", "model": str(prepared_model())}, "semantic_deadline_ms": 5000}
    async with running_gateway(*llamas, cache=cache, **PATIENT) as running:
        yield running


async def test_completions(gateway: RunningGateway) -> None:
    def asked(text: str) -> dict[str, Any]:
        prompt = f"{text} The answer is that it"
        return {"model": "m1", "prompt": prompt, "temperature": 0, "max_tokens": 400, "stop": ["\n", "."]}

    async with sdk(gateway) as client:
        replies = []
        for text, _ in WAYS:
            replies.append(await client.completions.with_raw_response.create(**asked(text)))
            await gateway.idle()
        stream = await client.completions.create(
            **asked(ASKED), stream=True, stream_options={"include_usage": True}
        )
        chunks = [chunk async for chunk in stream]
    assert [reply.headers["x-cache"] for reply in replies] == [outcome for _, outcome in WAYS]
    first, same, alike, _ = [reply.parse() for reply in replies]
    assert first.choices[0].text
    assert first.choices == same.choices == alike.choices
    assert "".join(chunk.choices[0].text for chunk in chunks if chunk.choices) == first.choices[0].text
    assert first.usage == same.usage == chunks[-1].usage


async def test_responses(gateway: RunningGateway) -> None:
    def asked(text: str) -> dict[str, Any]:
        return {"model": "m1", "input": text, "instructions": "Answer in one sentence.", "temperature": 0}

    async with sdk(gateway) as client:
        replies = []
        for text, _ in WAYS:
            replies.append(await client.responses.with_raw_response.create(**asked(text)))
            await gateway.idle()
        async with client.responses.stream(**asked(ASKED)) as stream:
            names = [event.type async for event in stream]
            streamed = await stream.get_final_response()
    assert [reply.headers["x-cache"] for reply in replies] == [outcome for _, outcome in WAYS]
    first, same, alike, _ = [reply.parse() for reply in replies]
    assert first.output_text
    assert first.output_text == same.output_text == alike.output_text == streamed.output_text
    assert first.usage == same.usage == streamed.usage
    assert len({first.id, same.id, alike.id, streamed.id}) == 4
    assert (names[0], names[-1]) == ("response.created", "response.completed")


async def test_a_streamed_response_is_kept_and_one_that_was_cut_is_not(gateway: RunningGateway) -> None:
    async def ask(*, limit: int, stream: bool) -> tuple[str, str]:
        async with sdk(gateway) as client:
            reply = await client.responses.with_raw_response.create(
                model="m1", input=ASKED, temperature=0, max_output_tokens=limit, stream=stream
            )
            if stream:
                text = "".join(
                    [e.delta async for e in reply.parse() if e.type == "response.output_text.delta"]
                )
            else:
                text = reply.parse().output_text
        await gateway.idle()
        return reply.headers["x-cache"], text

    first, again = [await ask(limit=300, stream=stream) for stream in (True, False)]
    assert (first[0], again[0]) == ("MISS", "HIT-EXACT")
    assert first[1] == again[1] != ""
    # llama.cpp calls what it has cut completed.
    assert [(await ask(limit=4, stream=True))[0] for _ in range(2)] == ["MISS", "MISS"]
