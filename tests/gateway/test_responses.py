"""Responses beside chat: through the gateway, in either form, from a server and from the cache."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types.responses import Response

from gateway.evidence.desk import ExplainRequest
from tests.cases.speaking import official_sdk
from tests.gateway.posting import post, told
from tests.gateway.replying import event, message, response, response_stream
from tests.running import running_gateway
from tests.scripted import CUT, ScriptedUpstream

CALL = {
    "id": "fc_up",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "rain",
    "arguments": '{"city": "Oslo"}',
}
THOUGHT = {
    "id": "rs_up",
    "type": "reasoning",
    "summary": [{"type": "summary_text", "text": "Hm."}],
    "content": [{"type": "reasoning_text", "text": "Let me see."}],
    "encrypted_content": "abc",
    "status": "completed",
}


@pytest.mark.parametrize("first", ["whole", "stream"])
async def test_a_response_is_a_hit_in_either_form_whichever_was_stored(first: str) -> None:
    asked: dict[str, Any] = {"model": "m1", "input": "Say hello", "instructions": "Be brief."}
    answer = response(message("Hello to you"), instructions="Be brief.")
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream) as gateway,
        official_sdk(gateway) as sdk,
    ):
        if first == "whole":
            upstream.reply_json(answer)
            fresh = await sdk.responses.create(**asked)
        else:
            upstream.stream(response_stream(answer))
            async with sdk.responses.stream(**asked) as stream:
                fresh = await stream.get_final_response()
        await gateway.idle()
        whole = await sdk.responses.create(**asked)
        async with sdk.responses.stream(**asked) as stream:
            streamed = await stream.get_final_response()
        assert len(upstream.calls) == 1
    assert fresh.id == "resp_up"
    for again in (whole, streamed):
        assert (again.output_text, again.status, again.model) == ("Hello to you", "completed", "m1")
        assert again.usage == fresh.usage
        assert again.instructions == "Be brief."
        assert again.id not in ("resp_up", None)
        assert again.output[0].id != "msg_up"
    assert whole.id != streamed.id


async def test_calls_and_thoughts_survive_and_are_for_the_very_question() -> None:
    answer = response(THOUGHT, CALL)
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(answer)
        fresh, again = [await post(gateway, "/v1/responses", input="Rain?") for _ in range(2)]
        stream = await post(gateway, "/v1/responses", input="Rain?", stream=True)
    assert again.headers["x-cache"] == stream.headers["x-cache"] == "HIT-EXACT"
    Response.model_validate_json(again.content, strict=True)
    last = told(stream)[-1][1]["response"]
    for found in (again.json(), last):
        assert [{**item, "id": None} for item in found["output"]] == [
            {**item, "id": None} for item in fresh.json()["output"]
        ]
    arguments = [e["delta"] for name, e in told(stream) if name == "response.function_call_arguments.delta"]
    assert arguments == ['{"city": "Oslo"}']


async def test_a_replayed_stream_has_numbered_events_and_no_done() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream(response_stream(response(message("one two"))))
        fresh, again = [await post(gateway, "/v1/responses", input="x", stream=True) for _ in range(2)]
    assert (fresh.headers["x-cache"], again.headers["x-cache"]) == ("MISS", "HIT-EXACT")
    for reply in (fresh, again):
        names = [name for name, _ in told(reply)]
        assert names == [event["type"] for _, event in told(reply)]
        assert (names[0], names[-1]) == ("response.created", "response.completed")
        assert [event["sequence_number"] for _, event in told(reply)] == list(range(len(names)))
    models = {e["response"]["model"] for reply in (fresh, again) for _, e in told(reply) if "response" in e}
    assert models == {"m1"}


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True},
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"background": True},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"type": "item_reference", "id": "msg_1"}]},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
        {"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "https://x/y"}]}]},
    ],
)
async def test_what_leans_on_the_servers_memory_goes_past_the_cache(fields: dict[str, Any]) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(response(message("x")), times=2)
        for _ in range(2):
            reply = await post(gateway, "/v1/responses", **({"input": "x"} | fields))
            assert (reply.status_code, reply.headers["x-cache"]) == (200, "BYPASS")


@pytest.mark.parametrize(
    "answer",
    [
        response(message("x"), store=True),
        response(message("x"), status="incomplete"),
        response(message("x"), status="failed", error={"code": "server_error", "message": "no"}),
        response(),
        response(message("")),
        response({"id": "ws_1", "type": "web_search_call", "status": "completed"}, message("x")),
        response({**message("x"), "status": "incomplete"}),
        response(message("x"), usage={"input_tokens": 3, "output_tokens": 16, "total_tokens": 19}),
        response(message("x"), max_output_tokens=4),
    ],
    ids=[
        "stored",
        "incomplete",
        "failed",
        "nothing",
        "empty",
        "server-tool",
        "half-item",
        "used-up",
        "used-up-by-its-own-word",
    ],
)
async def test_what_is_not_whole_or_lies_at_the_server_is_passed_on_and_not_kept(
    answer: dict[str, Any],
) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(answer, times=2)
        for _ in range(2):
            reply = await post(gateway, "/v1/responses", input="x", max_output_tokens=16)
            assert (reply.headers["x-cache"], reply.json()) == ("MISS", answer | {"model": "m1"})


async def test_nobody_gets_the_labels_of_another() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(response(message("x"), metadata={"team": "a"}, user="ann"))
        await post(gateway, "/v1/responses", input="x", metadata={"team": "a"}, user="ann")
        other = await post(gateway, "/v1/responses", input="x", metadata={"team": "b"})
        none = await post(gateway, "/v1/responses", input="x")
    assert [other.headers["x-cache"], none.headers["x-cache"]] == ["HIT-EXACT"] * 2
    assert (other.json()["metadata"], other.json()["user"]) == ({"team": "b"}, None)
    assert none.json()["metadata"] is None


async def test_a_server_that_repeats_no_labels_does_not_from_the_cache_either() -> None:
    answer = {name: value for name, value in response(message("x")).items() if name != "metadata"}
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(answer)
        fresh, again = [
            await post(gateway, "/v1/responses", input="x", metadata={"team": "a"}) for _ in range(2)
        ]
    assert again.headers["x-cache"] == "HIT-EXACT"
    assert again.json().keys() == fresh.json().keys()


async def test_how_a_response_would_be_answered_is_explained() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        asked = {"model": "m1", "temperature": 0, "input": "Say hello"}
        would = []
        for _ in range(2):
            told = await gateway.ask_cache(ExplainRequest(asked, "acme", "web"))
            assert told.told is not None, told.problem
            would.append(told.told["would"])
            upstream.reply_json(response(message("Hello")))
            await post(gateway, "/v1/responses", input="Say hello")
    assert would == ["MISS", "HIT-EXACT"]


async def test_a_message_says_the_same_in_each_of_its_forms() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(response(message("x")))
        forms: list[Any] = [
            "Hello?",
            [{"role": "user", "content": "Hello?"}],
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello?"}]}],
        ]
        outcomes = [(await post(gateway, "/v1/responses", input=form)).headers["x-cache"] for form in forms]
    assert outcomes == ["MISS", "HIT-EXACT", "HIT-EXACT"]


@pytest.mark.parametrize(
    "ending",
    [
        [CUT],
        [event("error", code="server_error", message="it broke at http://10.1.2.3:8000", param=None)],
        [event("response.failed", response={"error": {"code": "server_error", "message": "it broke"}})],
        [b'data: {"error": {"message": "it broke", "code": 500}}\n\n', "[DONE]"],
        [b"data: {nonsense\n\n"],
        [],
    ],
    ids=["cut", "error-event", "failed", "vllm-error", "nonsense", "no-ending"],
)
async def test_a_stream_that_breaks_ends_in_an_error_the_sdk_raises_and_is_not_kept(
    ending: list[Any],
) -> None:
    begun = response_stream(response(message("one two")))[:6]
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([*begun, *ending])
        reply = await post(gateway, "/v1/responses", input="x", stream=True)
        name, last = told(reply)[-1]
        assert (name, last["type"]) == ("error", "error")
        assert set(last["error"]) == {"message", "type", "param", "code"}
        assert last["message"] == last["error"]["message"]
        assert "10.1.2.3" not in reply.text
        assert len(told(reply)) == 7
        upstream.stream([*begun, *ending])
        assert (await post(gateway, "/v1/responses", input="x", stream=True)).headers["x-cache"] == "MISS"


async def test_what_is_no_response_is_a_502_and_what_cannot_be_asked_a_400() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json({"object": "list"})
        assert (await post(gateway, "/v1/responses", input="x")).status_code == 502
        for bad, param in ((5, "input"), (["x"], "input.0")):
            reply = await post(gateway, "/v1/responses", input=bad)
            assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        reply = await post(gateway, "/v1/completions", prompt={"a": 1})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, "prompt")
