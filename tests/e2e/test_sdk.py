"""The official SDK, unchanged but for its base URL, from a real model through the cache and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.cache.prepared import prepared_model
from tests.e2e.asking import ASKED, OPPOSITE, PATIENT, SAME, blocking_sdk, question, sdk
from tests.running import RunningGateway, running_gateway

WAYS = [(ASKED, "MISS"), (ASKED, "HIT-EXACT"), (SAME, "HIT-SEMANTIC"), (OPPOSITE, "MISS")]


@pytest_asyncio.fixture
async def gateway(llamas: tuple[str, str]) -> AsyncIterator[RunningGateway]:
    cache = {"embedder": {"kind": "onnx", "model": str(prepared_model())}, "semantic_deadline_ms": 5000}
    async with running_gateway(*llamas, cache=cache, **PATIENT) as running:
        yield running


async def test_async(gateway: RunningGateway) -> None:
    async with sdk(gateway) as client:
        replies = [
            await client.chat.completions.with_raw_response.create(**question(text)) for text, _ in WAYS
        ]
    assert [reply.headers["x-cache"] for reply in replies] == [outcome for _, outcome in WAYS]
    assert replies[3].headers["x-cache-reason"] == "veto-order"
    first, same, alike, _ = [reply.parse() for reply in replies]
    assert first.choices[0].message.content
    assert first.choices[0].message == same.choices[0].message == alike.choices[0].message
    assert first.usage == same.usage == alike.usage
    assert {completion.model for completion in (same, alike)} == {"m1"}


async def test_sync(gateway: RunningGateway) -> None:
    def ask() -> list[tuple[str, str | None]]:
        with blocking_sdk(gateway) as client:
            replies = [client.chat.completions.with_raw_response.create(**question(text)) for text, _ in WAYS]
        return [(reply.headers["x-cache"], reply.parse().choices[0].message.content) for reply in replies]

    seen = await asyncio.to_thread(ask)
    assert [outcome for outcome, _ in seen] == [outcome for _, outcome in WAYS]
    assert len({answer for _, answer in seen[:3]}) == 1


async def test_async_streams(gateway: RunningGateway) -> None:
    answers, outcomes = [], []
    async with sdk(gateway) as client:
        for text, _ in WAYS:
            options = {"stream": True, "stream_options": {"include_usage": True}}
            reply = await client.chat.completions.with_raw_response.create(**question(text, **options))
            chunks = [chunk async for chunk in reply.parse()]
            outcomes.append(reply.headers["x-cache"])
            answers.append("".join(c.choices[0].delta.content or "" for c in chunks if c.choices))
            assert chunks[-1].usage is not None
            assert chunks[-1].usage.completion_tokens > 4
            assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
        whole = await client.chat.completions.with_raw_response.create(**question())
    assert outcomes == [outcome for _, outcome in WAYS]
    assert whole.headers["x-cache"] == "HIT-EXACT"
    assert answers[0] == answers[1] == answers[2] == whole.parse().choices[0].message.content


async def test_sync_stream(gateway: RunningGateway) -> None:
    def ask() -> list[str]:
        with blocking_sdk(gateway) as client:
            return [
                "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
                for stream in (client.chat.completions.create(**question(stream=True)) for _ in range(2))
            ]

    first, again = await asyncio.to_thread(ask)
    assert first == again != ""


async def test_the_stream_helper_builds_the_same_message_from_a_miss_and_a_hit(
    gateway: RunningGateway,
) -> None:
    """The SDK's helper insists on well-formed chunks: role first, one finish_reason."""
    built = []
    async with sdk(gateway) as client:
        for _ in range(2):
            async with client.chat.completions.stream(**question()) as stream:
                built.append((await stream.get_final_completion()).choices[0])
    assert built[0].message.content == built[1].message.content
    assert [choice.finish_reason for choice in built] == ["stop", "stop"]


async def test_both_members_answer(gateway: RunningGateway) -> None:
    """Two questions at once are one for each: the least loaded is asked."""
    async with sdk(gateway) as client:
        ask = client.chat.completions.with_raw_response.create
        replies = await asyncio.gather(ask(**question(ASKED)), ask(**question(OPPOSITE)))
    assert {reply.headers["x-echogate-backend"] for reply in replies} == {"m1-1", "m1-2"}


async def test_models(gateway: RunningGateway) -> None:
    async with sdk(gateway) as client:
        listed = [model.id async for model in client.models.list()]
        one = await client.models.retrieve("m1")
    assert listed == ["m1", "m2"]
    assert one.id == "m1"


@pytest.mark.parametrize("scope", ["namespace", "tenant"])
async def test_another_namespace_or_tenant_asks_anew(gateway: RunningGateway, scope: str) -> None:
    key = await gateway.new_key("umbrella") if scope == "tenant" else None
    headers = {"x-cache-namespace": "other"} if scope == "namespace" else {}
    async with sdk(gateway) as client, sdk(gateway, key=key) as other:
        await client.chat.completions.create(**question())
        reply = await other.chat.completions.with_raw_response.create(**question(), extra_headers=headers)
    assert reply.headers["x-cache"] == "MISS"
