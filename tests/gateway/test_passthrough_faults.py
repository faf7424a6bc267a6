"""Endpoints that are only handed on, when servers say something else, forms are odd, or callers leave."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from auth import Limits
from tests.gateway.test_passthrough import MESSAGES, RERANK, post, used_today
from tests.running import running_gateway
from tests.scripted import HANG, ScriptedUpstream
from tests.valkey import eventually

SOUND = bytes(range(256)) * 400
FILE = {"file": ("a.wav", SOUND, "audio/wav")}


def event(name: str, **data: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name} | data)}\n\n".encode()


BEGIN = event("message_start", message={"model": "m", "usage": {"input_tokens": 5, "output_tokens": 1}})
WORD = event("content_block_delta", delta={"type": "text_delta", "text": "hi"})
END = event("message_delta", usage={"output_tokens": 7}) + event("message_stop")


def last_error(reply: httpx.Response) -> dict[str, Any]:
    name, data = reply.text.split("\n\n")[-2].split("\n")
    assert name == "event: error"
    return dict(json.loads(data.removeprefix("data: "))["error"])


@pytest.mark.parametrize(
    ("body", "content_type"),
    [
        (b"<html>busy</html>", "text/html"),
        (b"<html>busy</html>", "application/json"),
        (b"null", "application/json"),
        (b"", "application/json"),
        (b"ok", "text/plain"),
    ],
)
async def test_a_200_that_is_no_reply_is_an_error(body: bytes, content_type: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(body, content_type=content_type)
        reply = await post(gateway, "/v1/rerank", RERANK)
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")


async def test_a_page_instead_of_sound_is_an_error() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b"<html>busy</html>", content_type="text/html")
        reply = await post(gateway, "/v1/audio/speech", {"model": "m1", "input": "hi", "voice": "x"})
        assert reply.status_code == 502


async def test_a_list_passes_as_it_is() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'[ {"index": 0} ]')
        assert (await post(gateway, "/v1/rerank", RERANK)).content == b'[ {"index": 0} ]'


@pytest.mark.parametrize(
    "broken",
    [
        event("error", error={"type": "overloaded_error", "message": "no room at http://10.0.0.7:8000"}),
        b'data: {"error": {"message": "no room at http://10.0.0.7:8000"}}\n\n',
    ],
)
async def test_an_error_in_a_stream_tells_nothing_of_the_inside_and_ends_it(broken: bytes) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(BEGIN + WORD + broken + WORD, content_type="text/event-stream")
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True})
        assert "10.0.0.7" not in reply.text
        assert last_error(reply)["message"].startswith("no room at")
        assert reply.text.count('"hi"') == 1


async def test_a_stream_is_over_with_its_last_event_though_the_connection_hangs_on() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([BEGIN + WORD, END, HANG])
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True}, timeout=5)
        assert reply.text.endswith('data: {"type": "message_stop"}\n\n')


async def test_a_reply_has_the_form_that_the_server_gave_it() -> None:
    """What was asked for is between the caller and the server."""
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"type": "message", "model": "m"}')
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True})
        assert reply.json() == {"type": "message", "model": "m1"}
        upstream.reply(BEGIN + WORD + END, content_type="text/event-stream")
        reply = await post(gateway, "/v1/messages", MESSAGES)
        assert reply.headers["content-type"].startswith("text/event-stream")


async def test_a_stream_that_is_left_pays_for_what_was_sent_and_not_for_what_was_announced() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(service="left")
        upstream.stream([BEGIN, *[WORD] * 50, HANG])
        async with gateway.client.stream(
            "POST",
            "/v1/messages",
            json=MESSAGES | {"stream": True},
            headers={"authorization": f"Bearer {key}"},
        ) as reply:
            seen = 0
            async for line in reply.aiter_lines():
                seen += line.startswith("data: ")
                if seen == 51:
                    break
        await gateway.idle()
        assert upstream.active == 0
        async with asyncio.timeout(10):
            while (used := await used_today(gateway, key)) == (0, 0):  # noqa: ASYNC110 - written behind the path
                await asyncio.sleep(0.05)
        assert used[1] == 51


async def test_a_caller_that_leaves_an_upload_or_a_stream_leaves_nothing_behind() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.hang(times=2)
        for path, more in (
            ("/v1/audio/transcriptions", {"files": FILE, "data": {"model": "m1"}}),
            ("/v1/messages", {"json": MESSAGES | {"stream": True}}),
        ):
            with pytest.raises(httpx.ReadTimeout):
                await post(gateway, path, timeout=0.5, **more)
        await eventually(lambda: upstream.active == 0 and gateway.plane.in_flight == 0)
        assert sum(gateway.plane.pools.in_flight().values()) == 0


async def test_sound_is_not_reserved_as_if_it_were_text() -> None:
    """A hundred kilobytes of text would be all that this key may use in a minute, and more."""
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(service="hears", limits=Limits(tokens_per_min=1000))
        upstream.hang()
        upstream.reply(b'{"text": "hello"}')
        ask: dict[str, Any] = {"files": FILE, "data": {"model": "m1"}, "key": key}
        first = asyncio.create_task(post(gateway, "/v1/audio/transcriptions", **ask))
        await upstream.wait_calls(1)
        assert (await post(gateway, "/v1/audio/transcriptions", **ask)).status_code == 200
        first.cancel()


@pytest.mark.parametrize("data", [{}, {"model": "other"}])
async def test_azures_path_names_the_model_of_a_form(data: dict[str, str]) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(b'{"text": "hello"}')
        path = "/openai/deployments/m1/audio/transcriptions?api-version=2024-06-01"
        reply = await post(gateway, path, files=FILE, data=data)
        assert reply.json() == {"text": "hello"}
        (call,) = upstream.calls
        assert call.body.count(b'name="model"\r\n\r\nm\r\n') == 1
        assert SOUND in call.body


async def test_events_of_a_form_pass_as_they_come() -> None:
    text = event("transcript.text.delta", delta="he") + event("transcript.text.done", text="hello")
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(text, content_type="text/event-stream")
        data = {"model": "m1", "stream": "true"}
        reply = await post(gateway, "/v1/audio/transcriptions", files=FILE, data=data)
        assert reply.content == text


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/tokenize", "/v1/audio/speech"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE"])
async def test_other_methods_are_told_which_to_use(path: str, method: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await gateway.client.request(method, path, headers={"authorization": f"Bearer {gateway.key}"})
        assert (reply.status_code, reply.headers["allow"]) == (405, "POST, OPTIONS")
        assert (reply.content == b"") == (method == "HEAD")


async def test_a_busy_server_is_covered_by_another() -> None:
    async with (
        ScriptedUpstream() as one,
        ScriptedUpstream() as other,
        running_gateway(one, other) as gateway,
    ):
        for upstream in (one, other):
            upstream.script(lambda call, wire: wire.json({"error": {"message": "busy"}}, status=503))
            upstream.reply(b'{"results": []}', times=2)
        assert (await post(gateway, "/v1/rerank", RERANK)).status_code in (200, 503)
        assert len(one.calls) == len(other.calls) == 1


async def test_who_wants_only_what_is_stored_asks_no_server_and_a_misspelt_wish_is_told() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for headers, status, code in (
            ({"cache-control": "only-if-cached"}, 504, "cache_miss"),
            ({"x-cache-mode": "semantik"}, 400, "invalid_request"),
        ):
            reply = await gateway.client.post(
                "/v1/rerank", json=RERANK, headers={"authorization": f"Bearer {gateway.key}"} | headers
            )
            assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
        assert not upstream.calls


async def test_a_silent_stream_is_kept_alive() -> None:
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, server={"stream_keep_alive_s": 0.1}) as gateway,
    ):
        upstream.stream([BEGIN, 0.5, WORD, END])
        reply = await post(gateway, "/v1/messages", MESSAGES | {"stream": True})
        assert ": keep-alive\n\n" in reply.text
        assert reply.text.endswith('data: {"type": "message_stop"}\n\n')


async def test_a_reply_that_is_read_slowly_keeps_no_server_busy() -> None:
    sound = bytes(8 << 20)
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(sound, content_type="audio/mpeg")
        async with gateway.client.stream(
            "POST",
            "/v1/audio/speech",
            json={"model": "m1", "input": "hi", "voice": "x"},
            headers={"authorization": f"Bearer {gateway.key}", "accept-encoding": "identity"},
        ) as reply:
            assert reply.status_code == 200
            await eventually(lambda: sum(gateway.plane.pools.in_flight().values()) == 0)
            assert gateway.plane.in_flight == 1  # most of it is still to be read
            assert len(await reply.aread()) == len(sound)
