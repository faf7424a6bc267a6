"""What clients and SDKs stumbled over with other gateways: bodies and fields in, the SDK's own types out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.cases.speaking import official_sdk, streamed
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream, completion, delta

HISTORY: list[dict[str, Any]] = [
    {"role": "user", "content": "Rain in Oslo?"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "type": "function", "function": {"name": "rain", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "5 mm"},
]
CALLS: list[dict[str, Any]] = [
    {"id": "c1", "type": "function", "function": {"name": "rain", "arguments": '{"city": "Oslo"}'}},
    {"id": "c2", "type": "function", "function": {"name": "wind", "arguments": '{"city": "Bergen"}'}},
]


SHAPES: list[list[dict[str, Any]]] = [
    HISTORY,
    [{"role": "user", "content": "hi"}, {"role": "assistant", "content": ""}],
    [{"role": "user", "content": "hi"}, {"role": "assistant", "content": None}],
    [{"role": "user", "content": "hi"}, {"role": "assistant"}, {"role": "user", "content": "go"}],
    [{"role": "assistant", "content": []}, {"role": "user", "content": "go"}],
    [
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "hi"},
    ],
    [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi", "name": "ann"}],
    [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
    [{"role": "user", "content": ""}],
    [{"role": "user", "content": []}],
    [
        {
            "role": "user",
            "content": [{"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}}],
        }
    ],
    [{"role": "user", "content": [{"type": "file", "file": {"file_data": "data:;base64,AA=="}}]}],
    [{"role": "user", "content": [{"type": "a_new_kind", "a_new_kind": {"x": 1}}]}],
    [{"role": "user", "content": [{"type": "text"}]}],
    [{"role": "a_new_role", "content": "hi", "x_new": None}],
]


MESSAGES: list[dict[str, Any]] = [
    {"content": None, "tool_calls": CALLS},
    {"content": "x", "reasoning_content": "because"},
    {"content": "x", "refusal": None, "annotations": []},
    {"content": "x", "function_call": None, "audio": None},
    {"content": "x", "x_new": {"a": [1.50]}},
]


def answered(message: dict[str, Any], *, finish: str = "stop") -> dict[str, Any]:
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "logprobs": None,
        "finish_reason": finish,
    }
    return completion("x") | {"choices": [choice]}


class TestBodies:
    """A gateway that is stricter than the API, or tidies up what it passes on, breaks somebody."""

    async def test_messages_of_every_shape_are_passed_on_as_they_are(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for messages in SHAPES:
                replies = [await gateway.chat(messages=messages) for _ in range(2)]
                async with gateway.chat_stream(messages=messages) as streaming:
                    await streaming.aread()
                statuses = [reply.status_code for reply in (*replies, streaming)]
                assert (messages, statuses) == (messages, [200] * 3)
                assert messages in [call.json["messages"] for call in upstream.calls]

    async def test_fields_of_extra_body_arrive_at_the_top(self) -> None:
        extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 5, "x_new": 1}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            async with official_sdk(gateway) as sdk:
                await sdk.chat.completions.create(
                    model="m1", messages=[{"role": "user", "content": "q"}], extra_body=extra
                )
            sent = upstream.calls[0].json
            assert {name: sent[name] for name in extra} == extra
            assert set(sent) == {"model", "messages", *extra}

    async def test_empty_stream_options_without_a_stream_never_reach_the_server(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for options in (None, dict[str, Any]()):
                for fields in ({"stream": False}, {"stream": None}, {}):
                    reply = await gateway.chat(f"{options} {fields}", stream_options=options, **fields)
                    assert reply.status_code == 200
            assert not any("stream_options" in call.json for call in upstream.calls)

    async def test_stream_options_without_a_stream_are_refused_whatever_is_cached(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            await gateway.chat()
            for content in ("What is a kettle for?", "another"):
                reply = await gateway.chat(content, stream=False, stream_options={"include_usage": True})
                assert (reply.status_code, reply.json()["error"]["param"]) == (400, "stream_options")
            assert len(upstream.calls) == 1

    async def test_an_answer_has_no_member_added_or_removed_stored_or_not(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for message in MESSAGES:
                answer = answered(message, finish="tool_calls" if "tool_calls" in message else "stop")
                upstream.reply_json(answer)
                fresh, again = await gateway.chat(str(message)), await gateway.chat(str(message))
                answer["model"] = "m1"  # the pool's own name for it stays inside
                assert fresh.json() == answer
                assert again.headers["x-cache"] == "HIT-EXACT"
                made_anew = {name: again.json()[name] for name in ("id", "created")}
                assert again.json() == answer | made_anew


class TestStrictly:
    """What comes out of the cache must pass for what comes from a model, in the eyes of the SDK's own types."""

    async def test_a_stored_answer_has_every_member_of_the_schema_and_an_id_of_its_own(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            replies = [await gateway.chat() for _ in range(3)]
        parsed = [ChatCompletion.model_validate_json(reply.content, strict=True) for reply in replies]
        assert [reply.headers["x-cache"] for reply in replies] == ["MISS", "HIT-EXACT", "HIT-EXACT"]
        assert len({completion.id for completion in parsed}) == 3
        for completion_ in parsed[1:]:
            assert completion_.model == "m1"
            assert completion_.created >= parsed[0].created
            assert completion_.usage == parsed[0].usage
            assert completion_.usage is not None
            assert completion_.choices == parsed[0].choices

    async def test_each_chunk_of_a_replayed_stream_passes_too(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            await gateway.chat(n=2)
            for options in ({"include_usage": True}, {"include_usage": False}):
                _, chunks = await streamed(gateway, "What is a kettle for?", n=2, stream_options=options)
                for chunk in chunks[:-1]:
                    ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
            assert len(upstream.calls) == 1

    @pytest.mark.parametrize("first", ["whole", "stream"])
    async def test_parallel_tool_calls_are_the_same_for_the_sdk_however_they_were_stored_and_asked_for(
        self, first: str
    ) -> None:
        heads = [
            {"index": i, **call, "function": {"name": call["function"]["name"], "arguments": ""}}
            for i, call in enumerate(CALLS)
        ]
        fragments = [
            delta(
                tool_calls=[
                    {"index": i, "function": {"arguments": call["function"]["arguments"][at : at + 2]}}
                ]
            )
            for at in range(0, 20, 2)
            for i, call in enumerate(CALLS)
        ]
        asked: dict[str, Any] = {"model": "m1", "messages": [{"role": "user", "content": "Rain in Oslo?"}]}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
            official_sdk(gateway) as sdk,
        ):
            if first == "whole":
                upstream.reply_json(answered({"content": None, "tool_calls": CALLS}, finish="tool_calls"))
                await sdk.chat.completions.create(**asked)
            else:
                upstream.stream(
                    [
                        *(delta(tool_calls=[head]) for head in heads),
                        *fragments,
                        delta(finish="tool_calls"),
                        "[DONE]",
                    ]
                )
                async for _ in await sdk.chat.completions.create(**asked, stream=True):
                    pass
            await gateway.idle()
            whole = await sdk.chat.completions.create(**asked)
            async with sdk.chat.completions.stream(**asked) as stream:
                streamed_ = await stream.get_final_completion()
            assert len(upstream.calls) == 1
        for choice in (whole.choices[0], streamed_.choices[0]):
            found = choice.message.tool_calls or []
            assert [
                call.model_dump(
                    include={"id", "type", "function"}, exclude={"function": {"parsed_arguments"}}
                )
                for call in found
            ] == CALLS
            assert choice.finish_reason == "tool_calls"

    async def test_hundreds_of_sdk_calls_at_once_get_their_own_answers(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
            official_sdk(gateway) as sdk,
        ):

            async def ask(number: int) -> bool:
                reply = await sdk.chat.completions.create(
                    model="m1", messages=[{"role": "user", "content": f"nonce-{number % 50}"}]
                )
                return f"nonce-{number % 50}" in (reply.choices[0].message.content or "").split()

            assert all(await asyncio.gather(*(ask(number) for number in range(200))))
