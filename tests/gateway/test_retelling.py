"""Stored answers as streams: at once or in their own time, with usage as it was asked for, and which kinds are kept."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.telling import in_words
from tests.cases.speaking import chat_body, connection, post_head, streamed
from tests.gateway.posting import post
from tests.gateway.replying import USAGE, message, response, text_completion
from tests.running import RunningGateway, events, running_gateway
from tests.scripted import ScriptedUpstream, completion, delta
from tests.valkey import eventually

WORDS = "one two three four five six seven eight nine ten"
NATURAL = {"x-cache-replay": "natural"}


def slow(upstream: ScriptedUpstream, *, over_s: float) -> None:
    upstream.stream([delta("one"), over_s, delta(WORDS.removeprefix("one")), delta(finish="stop"), "[DONE]"])


async def arrivals(gateway: RunningGateway, content: str, **headers: str) -> list[tuple[float, str]]:
    """When each piece of text came, in seconds since the head."""
    found: list[tuple[float, str]] = []
    async with gateway.chat_stream(
        content, headers={k.replace("_", "-"): v for k, v in headers.items()}
    ) as reply:
        began = time.monotonic()
        async for line in reply.aiter_lines():
            if line.startswith("data: {"):
                choices = json.loads(line[6:])["choices"]
                if choices and (text := choices[0]["delta"].get("content")):
                    found.append((time.monotonic() - began, text))
    return found


class TestPacing:
    async def test_a_stored_stream_comes_at_once_unless_it_shall_take_its_time(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            slow(upstream, over_s=1.0)
            await arrivals(gateway, "q")
            await gateway.idle()
            instant = await arrivals(gateway, "q")
            natural = await arrivals(gateway, "q", x_cache_replay="natural")
            assert len(upstream.calls) == 1
        assert [text for _, text in instant] == [WORDS]
        assert "".join(text for _, text in natural) == WORDS
        assert len(natural) == 10
        assert natural[-1][0] - natural[0][0] > 0.5  # it took a second to make

    async def test_the_setting_holds_for_all_and_a_request_may_ask_otherwise(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, cache={"replay": "natural"}) as gateway,
        ):
            slow(upstream, over_s=0.3)
            await arrivals(gateway, "q")
            await gateway.idle()
            assert len(await arrivals(gateway, "q")) == 10
            assert len(await arrivals(gateway, "q", x_cache_replay="instant")) == 1
            reply = await gateway.chat("q", headers={"x-cache-replay": "slowly"})
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, "x-cache-replay")

    async def test_a_client_that_leaves_is_not_told_the_rest(self) -> None:
        body = chat_body(stream=True)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            slow(upstream, over_s=1.0)
            await arrivals(gateway, "q")
            await gateway.idle()
            head = post_head(gateway, content_length=str(len(body)), x_cache_replay="natural")
            async with asyncio.timeout(10), connection(gateway) as (reader, writer):
                writer.write(head + body)
                await reader.readuntil(b"two")
            began = time.monotonic()
            await eventually(lambda: gateway.plane.in_flight == 0)
            assert time.monotonic() - began < 5

    @pytest.mark.parametrize(
        ("path", "question", "reply"),
        [
            ("/v1/completions", "prompt", text_completion(WORDS)),
            ("/v1/responses", "input", response(message(WORDS))),
        ],
    )
    async def test_each_dialect_has_its_words(self, path: str, question: str, reply: dict[str, Any]) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json(reply)
            await post(gateway, path, **{question: "q"})
            headers = {"authorization": f"Bearer {gateway.key}", **NATURAL}
            body = {"model": "m1", "temperature": 0, question: "q", "stream": True}
            again = await gateway.client.post(path, json=body, headers=headers)
        assert again.headers["x-cache"] == "HIT-EXACT"
        assert [f'" {word}"' in again.text for word in WORDS.split()[1:]] == [True] * 9

    async def test_json_is_whole_whatever_the_pace(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for _ in range(2):
                reply = await gateway.chat(headers=NATURAL)
            assert (reply.headers["x-cache"], reply.status_code) == ("HIT-EXACT", 200)

    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=300))
    def test_words_are_the_text(self, text: str) -> None:
        assert "".join(in_words(text)) == text

    def test_however_long_a_text_is_its_words_are_not_too_many(self) -> None:
        for text in ("word " * 100_000, "字" * 100_000, "a b " * 2_501):
            assert "".join(in_words(text)) == text
            assert len(in_words(text)) <= 1_000


class TestUsage:
    async def test_running_usage_of_a_hit_is_the_whole_on_each_chunk(self) -> None:
        options = {"include_usage": True, "continuous_usage_stats": True}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json(completion("x") | {"usage": USAGE})
            await gateway.chat("q")
            reply, chunks = await streamed(gateway, "q", stream_options=options)
        assert reply.headers["x-cache"] == "HIT-EXACT"
        assert [chunk["usage"] for chunk in chunks[:-1]] == [USAGE] * (len(chunks) - 1)
        assert [chunk["choices"] == [] for chunk in chunks[:-1]] == [*[False] * (len(chunks) - 2), True]


def answered(kind: str) -> dict[str, Any]:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    message = {
        "text": {"content": "x"},
        "reasoning": {"content": "x", "reasoning": "because"},
        "tool_calls": {"content": None, "tool_calls": [call]},
        "refusals": {"content": None, "refusal": "No."},
    }[kind]
    whole = completion("x")
    whole["choices"][0]["message"] = {"role": "assistant", **message}
    return whole


class TestKinds:
    @pytest.mark.parametrize("kind", ["text", "reasoning", "tool_calls", "refusals"])
    async def test_each_kind_is_kept_unless_the_policy_says_no(self, kind: str) -> None:
        async with ScriptedUpstream() as upstream:
            for keeping, outcome in (("exact", "HIT-EXACT"), ("off", "MISS")):
                async with running_gateway(upstream, cache={"answers": {kind: keeping}}) as gateway:
                    upstream.reply_json(answered(kind), times=2)
                    await gateway.chat("q")
                    assert (await gateway.chat("q")).headers["x-cache"] == outcome
                upstream.unscript()

    async def test_a_namespace_may_keep_otherwise(self) -> None:
        namespaces = {"agents": {"answers": {"tool_calls": "off"}}}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, cache={"namespaces": namespaces}) as gateway,
        ):
            upstream.reply_json(answered("tool_calls"), times=3)
            for namespace, outcome in (("default", "HIT-EXACT"), ("agents", "MISS")):
                headers = {"x-cache-namespace": namespace}
                await gateway.chat("q", headers=headers)
                assert (await gateway.chat("q", headers=headers)).headers["x-cache"] == outcome


async def test_members_nobody_knows_come_back_in_a_replayed_stream() -> None:
    whole = completion("x") | {"x_new": {"a": [1.5]}}
    whole["choices"][0]["x_choice"] = {"b": 1}
    whole["choices"][0]["message"]["x_message"] = "c"
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(whole)
        await gateway.chat("q")
        async with gateway.chat_stream("q") as reply:
            chunks = [chunk for chunk in events((await reply.aread()).decode()) if chunk != "[DONE]"]
    assert [chunk["x_new"] for chunk in chunks if "x_new" in chunk] == [{"a": [1.5]}]
    choices = [chunk["choices"][0] for chunk in chunks]
    assert [choice["x_choice"] for choice in choices if "x_choice" in choice] == [{"b": 1}]
    assert [c["delta"]["x_message"] for c in choices if "x_message" in c["delta"]] == ["c"]
