"""HTTP as it comes and goes: compressed bodies and replies, types of content, other methods, pages of other origins."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib

import brotli
import httpx
import pytest

from tests.cases.speaking import chat_body, connection, post_head, spoken
from tests.running import RunningGateway, answer_of, events, running_gateway
from tests.scripted import ScriptedUpstream, completion
from tests.valkey import eventually

CHAT = "/v1/chat/completions"
LONG = "A long answer. " * 200


NO_HTTP = [
    b"NONSENSE\r\n\r\n",
    b"GET foo HTTP/1.1\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\n\r\n",
    b"GET http://[bad/v1 HTTP/1.1\r\n\r\n",
    b"GET / HTTP/9.9\r\n\r\n",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /v1/models HTTP/1.1\r\nx: a\x00b\r\n\r\n",
    b"GET /v1/models HTTP/1.1\r\nauthorization : x\r\n\r\n",
    # Two lengths, or a length and chunks: where the request ends would be a matter of opinion.
    b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
    b"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: -1\r\n\r\n",
]


async def raw(gateway: RunningGateway, body: bytes, **headers: str) -> httpx.Response:
    """A POST whose reply is not unpacked: with its headers, and the bytes as they were sent."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named = {"authorization": f"Bearer {gateway.key}", "content-type": "application/json"} | named
    async with gateway.client.stream("POST", CHAT, content=body, headers=named) as reply:
        data = b"".join([part async for part in reply.aiter_raw()])
    return httpx.Response(reply.status_code, headers=[], content=data, extensions={"headers": reply.headers})


class TestCompressedBodies:
    async def test_the_same_request_is_the_same_question_however_it_was_packed(self) -> None:
        body = chat_body("q", x_new={"a": [1.50]})
        packed = {"gzip": gzip.compress(body), "deflate": zlib.compress(body), "br": brotli.compress(body)}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for coding, data in packed.items():
                reply = await gateway.post(data, headers={"content-encoding": coding})
                assert reply.status_code == 200
            assert (await gateway.post(body)).headers["x-cache"] == "HIT-EXACT"
        (call,) = upstream.calls
        assert "content-encoding" not in call.headers
        assert call.json["x_new"] == {"a": [1.5]}

    @pytest.mark.parametrize(
        ("coding", "body", "status", "code"),
        [
            ("gzip", b"not gzip", 400, "invalid_encoding"),
            ("gzip", gzip.compress(b"not json"), 400, "invalid_request"),
            ("gzip", gzip.compress(b" " * (5 << 20)), 413, "request_too_large"),
            ("gzip, br", b"x", 415, "unsupported_encoding"),
            ("compress", b"x", 415, "unsupported_encoding"),
        ],
        ids=["not-gzip", "not-json", "too-large", "chained", "unknown"],  # packed bytes hold the time of day
    )
    async def test_what_cannot_be_unpacked_is_a_clear_refusal(
        self, coding: str, body: bytes, status: int, code: str
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.post(body, headers={"content-encoding": coding})
            assert (reply.status_code, reply.json()["error"]["code"]) == (status, code)
            twice = await spoken(
                gateway,
                post_head(gateway, connection="close", content_length="1", content_encoding="gzip").replace(
                    b"\r\n\r\n", b"\r\ncontent-encoding: br\r\n\r\n"
                )
                + b"x",
            )
            assert twice[0] == 415
            plain = await gateway.post(chat_body(), headers={"content-encoding": "identity"})
            assert plain.status_code == 200
        assert len(upstream.calls) == 1


class TestCompressedReplies:
    async def test_a_long_reply_is_packed_for_who_asks_miss_and_hit_alike(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json(completion(LONG))
            said = []
            for accept, coding in (("gzip", "gzip"), ("br", "br"), ("identity", None), ("gzip;q=0", None)):
                reply = await raw(gateway, chat_body(), accept_encoding=accept)
                headers = reply.extensions["headers"]
                assert headers.get("content-encoding") == coding
                assert headers["vary"] == "accept-encoding"
                assert int(headers["content-length"]) == len(reply.content)
                unpack = {"gzip": gzip.decompress, "br": brotli.decompress, None: bytes}[coding]
                said.append(json.loads(unpack(reply.content))["choices"][0]["message"]["content"])
            assert set(said) == {LONG}
            assert len(upstream.calls) == 1

    async def test_short_replies_and_streams_are_sent_as_they_are(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for body in (chat_body(), chat_body("long", stream=True), chat_body("long", stream=True)):
                if b"long" in body and not upstream.calls[1:]:
                    upstream.reply_json(completion(LONG))
                reply = await raw(gateway, body, accept_encoding="gzip, br, zstd")
                assert "content-encoding" not in reply.extensions["headers"]

    async def test_it_can_be_turned_off(self) -> None:
        server = {"compression": "off"}
        async with ScriptedUpstream() as upstream, running_gateway(upstream, server=server) as gateway:
            upstream.reply_json(completion(LONG))
            headers = (await raw(gateway, chat_body(), accept_encoding="gzip")).extensions["headers"]
        assert "content-encoding" not in headers
        assert "vary" not in headers

    async def test_streams_are_packed_event_by_event_where_that_is_configured(self) -> None:
        server = {"compression": "streams"}
        async with (
            ScriptedUpstream(words=30) as upstream,
            running_gateway(upstream, server=server) as gateway,
        ):
            upstream.chunk_delay_s = 0.005
            for cache in ("MISS", "HIT-EXACT"):
                reply = await raw(gateway, chat_body(stream=True), accept_encoding="gzip")
                headers = reply.extensions["headers"]
                assert (headers["x-cache"], headers["content-encoding"]) == (cache, "gzip")
                assert events(gzip.decompress(reply.content).decode())[-1] == "[DONE]"
            plain = await raw(gateway, chat_body(stream=True), accept_encoding="br")
            assert "content-encoding" not in plain.extensions["headers"]


class TestTypesOfContent:
    @pytest.mark.parametrize(
        "kind",
        ["application/json; charset=utf-8", "application/problem+json", "text/json", "Application/JSON"],
    )
    async def test_json_by_any_name_is_taken(self, kind: str) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            assert (await gateway.post(chat_body(), headers={"content-type": kind})).status_code == 200

    async def test_nobody_has_to_say_that_it_is_json(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            head = post_head(gateway, connection="close", content_length=str(len(chat_body())))
            assert b"content-type" not in head
            assert (await spoken(gateway, head + chat_body()))[0] == 200

    @pytest.mark.parametrize(
        "kind",
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "nonsense"],
    )
    async def test_another_type_is_a_415_that_says_what_to_send(self, kind: str) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.post(chat_body(), headers={"content-type": kind})
            error = reply.json()["error"]
            assert (reply.status_code, error["code"]) == (415, "unsupported_media_type")
            assert kind.partition(";")[0] in error["message"]
            assert "application/json" in error["message"]
        assert upstream.calls == []


class TestMethods:
    async def test_head_and_options_answer_without_a_body(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            headers = {"authorization": f"Bearer {gateway.key}"}
            head = await gateway.client.head("/v1/models", headers=headers)
            got = await gateway.client.get("/v1/models", headers=headers | {"accept-encoding": "identity"})
            assert (head.status_code, head.content) == (200, b"")
            assert head.headers["content-length"] == got.headers["content-length"]
            for path, allowed in ((CHAT, "POST, OPTIONS"), ("/v1/models", "GET, HEAD, OPTIONS")):
                options = await gateway.client.options(path)
                assert (options.status_code, options.content, options.headers["allow"]) == (204, b"", allowed)
            head = await gateway.client.head(CHAT, headers=headers)
            assert (head.status_code, head.content, head.headers["allow"]) == (405, b"", "POST, OPTIONS")
            async with connection(gateway) as (reader, writer):
                writer.write(b"OPTIONS * HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 4")

    async def test_what_is_no_http_is_told_so_in_the_same_shape(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            said = await asyncio.gather(*[spoken(gateway, sent) for sent in NO_HTTP])
            await eventually(lambda: gateway.plane.in_flight == 0)
        for sent, (status, headers, body) in zip(NO_HTTP, said, strict=True):
            assert (sent, status, headers["content-type"]) == (sent, 400, "application/json")
            assert json.loads(body)["error"]["code"] == "invalid_http"
        assert "Traceback" not in capfd.readouterr().err


class TestOtherOrigins:
    PAGE = "https://app.example.com"

    async def test_nothing_is_said_of_origins_unless_it_is_configured(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.chat(headers={"origin": self.PAGE})
            preflight = await gateway.client.options(
                CHAT, headers={"origin": self.PAGE, "access-control-request-method": "POST"}
            )
        for headers in (reply.headers, preflight.headers):
            assert [name for name in headers if name.startswith("access-control")] == []

    async def test_a_page_of_a_named_origin_may_ask_and_read_what_the_headers_say(self) -> None:
        cors = {"origins": [self.PAGE], "credentials": True, "max_age_s": 60}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, server={"cors": cors}) as gateway,
        ):
            preflight = await gateway.client.options(
                CHAT,
                headers={
                    "origin": self.PAGE,
                    "access-control-request-method": "POST",
                    "access-control-request-headers": "authorization,content-type,x-stainless-os",
                },
            )
            reply = await gateway.chat(headers={"origin": self.PAGE})
            refused = await gateway.chat(key="eg-wrong", headers={"origin": self.PAGE})
            stranger = await gateway.chat(headers={"origin": "https://app.example.com.evil.com"})
            nobody = await gateway.chat()
        assert (preflight.status_code, preflight.headers["access-control-max-age"]) == (204, "60")
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert (
            preflight.headers["access-control-allow-headers"] == "authorization,content-type,x-stainless-os"
        )
        for allowed in (preflight, reply, refused):
            assert allowed.headers["access-control-allow-origin"] == self.PAGE
            assert allowed.headers["access-control-allow-credentials"] == "true"
        exposed = set(reply.headers["access-control-expose-headers"].split(", "))
        own = {name for name in reply.headers if name.startswith(("x-", "retry", "age"))}
        assert own <= exposed
        for other in (stranger, nobody):
            assert "access-control-allow-origin" not in other.headers
            assert other.headers["vary"] == "origin"
        assert answer_of(stranger) == answer_of(reply)

    async def test_any_origin_is_told_by_a_star(self) -> None:
        server = {"cors": {"origins": ["*"]}}
        async with ScriptedUpstream() as upstream, running_gateway(upstream, server=server) as gateway:
            reply = await gateway.chat(headers={"origin": self.PAGE})
        assert reply.headers["access-control-allow-origin"] == "*"
        assert "access-control-allow-credentials" not in reply.headers
