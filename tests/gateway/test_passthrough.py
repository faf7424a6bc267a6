"""Endpoints that are only handed on: let in like any other, relayed byte for byte, never cached."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from auth import Limits, Policy
from gateway.data.endpoints import ENDPOINTS, TOKENS
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually

RERANK = {"model": "m1", "query": "kettle", "documents": ["a", "b"], "top_n": 1, "x_new": 1.0}
MESSAGES = {"model": "m1", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}


async def post(
    gateway: RunningGateway, path: str, body: Any = None, *, key: str | None = None, **more: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {key or gateway.key}"}
    return await gateway.client.post(
        path, headers=headers, **({"json": body} if body is not None else {}), **more
    )


async def used_today(gateway: RunningGateway, key: str) -> tuple[int, int]:
    me = await gateway.client.get("/v1/me", headers={"authorization": f"Bearer {key}"})
    today = me.json()["usage"]["today"]
    return today["input_tokens"], today["output_tokens"]


async def test_a_reply_passes_byte_for_byte_but_for_the_model() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"id": 1,  "model":"m", "results": [{"relevance_score": 0.10}]}')
        reply = await post(gateway, "/v1/rerank", RERANK)
        assert reply.content == b'{"id": 1,  "model":"m1", "results": [{"relevance_score": 0.10}]}'
        assert (reply.headers["x-cache"], reply.headers["x-cache-reason"]) == ("BYPASS", "endpoint")
        assert reply.headers["x-echogate-backend"] == "m1-1"
        (call,) = upstream.calls
        assert call.path == "/v1/rerank"
        assert json.loads(call.body) == RERANK | {"model": "m"}
        assert b'"x_new":1.0' in call.body


async def test_it_is_asked_each_time() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"model": "m"}', times=2)
        for _ in range(2):
            await post(gateway, "/v1/rerank", RERANK)
        assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("/tokenize", "/tokenize"),
        ("/v1/tokenize", "/tokenize"),
        ("/detokenize/", "/detokenize"),
        ("/score", "/v1/score"),
        ("/v1/classify", "/classify"),
        ("/rerank", "/v1/rerank"),
        ("/openai/deployments/m1/rerank?api-version=1", "/v1/rerank"),
    ],
)
async def test_each_is_sent_to_the_path_that_servers_have_it_at(asked: str, sent: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"tokens": [1, 2]}')
        reply = await post(gateway, asked, {"model": "m1", "prompt": "hi"})
        assert reply.json() == {"tokens": [1, 2]}
        assert upstream.calls[0].path == sent


async def test_events_pass_with_their_names_and_their_tokens_are_counted() -> None:
    stream = [
        ("message_start", {"message": {"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}}}),
        ("content_block_delta", {"delta": {"type": "text_delta", "text": "hé"}}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}}),
        ("message_stop", {"type": "message_stop"}),
    ]
    text = "".join(f"event: {name}\ndata: {json.dumps(data)}\n\n" for name, data in stream).encode()
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(text, content_type="text/event-stream")
        key = await gateway.new_key(service="counted")
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True}, key=key)
        assert reply.headers["content-type"].startswith("text/event-stream")
        blocks = [block.split("\n") for block in reply.text.split("\n\n") if block]
        assert [block[0] for block in blocks] == [f"event: {name}" for name, _ in stream]
        first = json.loads(blocks[0][1].removeprefix("data: "))
        assert first["message"] == {"model": "m1", "usage": {"input_tokens": 5, "output_tokens": 1}}
        assert blocks[1][1].encode() in text
        async with asyncio.timeout(10):  # usage is written behind the path
            used = (0, 0)
            while used != (5, 7):
                await asyncio.sleep(0.05)
                used = await used_today(gateway, key)


async def test_a_stream_without_its_last_event_ends_in_an_error() -> None:
    text = b'event: message_start\ndata: {"message": {}}\n\n'
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(text, content_type="text/event-stream")
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True})
        last = reply.text.split("\n\n")[-2].split("\n")
        assert last[0] == "event: error"
        assert json.loads(last[1].removeprefix("data: "))["error"]["code"] == "incomplete_stream"


async def test_a_form_passes_with_its_file_and_the_upstreams_model() -> None:
    sound = bytes(range(256)) * 40
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"text": "hello"}')
        files = {"file": ("a.wav", sound, "audio/wav")}
        reply = await post(gateway, "/v1/audio/transcriptions", files=files, data={"model": "m1"})
        assert reply.json() == {"text": "hello"}
        (call,) = upstream.calls
        assert sound in call.body
        assert b'name="model"\r\n\r\nm\r\n' in call.body
        assert call.headers["content-type"].startswith("multipart/form-data; boundary=")


async def test_bytes_that_are_no_json_pass_as_they_are() -> None:
    sound = bytes(range(256)) * 100
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(sound, content_type="audio/mpeg")
        reply = await post(gateway, "/v1/audio/speech", {"model": "m1", "input": "hi", "voice": "x"})
        assert reply.content == sound
        assert reply.headers["content-type"] == "audio/mpeg"


async def test_errors_become_openais_and_tell_nothing_of_the_inside() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b"no such thing at http://10.0.0.7:8000", status=422, content_type="text/plain")
        reply = await post(gateway, "/v1/rerank", RERANK)
        assert reply.status_code == 422
        assert "10.0.0.7" not in reply.text
        assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


async def test_rights_hold_as_everywhere() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        chats = await gateway.new_key(service="a", policy=Policy(scopes=frozenset({"chat"})))
        other = await gateway.new_key(service="b", policy=Policy(models=("m2",)))
        assert (await post(gateway, "/v1/rerank", RERANK, key=chats)).status_code == 403
        assert (await post(gateway, "/v1/rerank", RERANK, key=other)).status_code == 404
        assert (await post(gateway, "/v1/rerank", {"query": "x"})).status_code == 400
        assert (await post(gateway, "/v1/rerank", RERANK | {"api_base": "http://x"})).status_code == 400
        assert (await gateway.client.post("/v1/rerank", json=RERANK)).status_code == 401
        assert not upstream.calls


async def test_limits_hold_and_are_settled_by_what_the_reply_says() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(service="few", limits=Limits(tokens_per_min=1000))
        upstream.reply(b'{"usage": {"total_tokens": 900}}', times=3)
        assert (await post(gateway, "/v1/rerank", RERANK, key=key)).status_code == 200
        await gateway.idle()
        assert (await post(gateway, "/v1/rerank", RERANK | {"query": "x" * 600}, key=key)).status_code == 429


async def test_what_the_operator_does_not_allow_is_not_there() -> None:
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, server={"pass_through": ["/v1/rerank"]}) as gateway,
    ):
        upstream.reply(b'{"tokens": []}', times=2)
        assert (await post(gateway, "/v1/messages", MESSAGES)).status_code == 404
        assert (await post(gateway, "/v1/rerank", RERANK)).status_code == 200
        assert (await post(gateway, "/tokenize", {"model": "m1", "prompt": "a"})).status_code == 200


async def test_a_caller_that_leaves_frees_the_server() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.hang()
        with pytest.raises(httpx.ReadTimeout):
            await post(gateway, "/v1/rerank", RERANK, timeout=0.5)
        await eventually(lambda: upstream.active == 0 and gateway.plane.in_flight == 0)
        assert sum(gateway.plane.pools.in_flight().values()) == 0


def test_no_endpoint_is_in_both_tables() -> None:
    assert not set(ENDPOINTS) & set(TOKENS)
