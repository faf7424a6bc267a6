"""What brought other gateways down when deployed: uploads without end, probes that hang, proxies, vanishing clients."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.cases.speaking import chat_body, connection, post_head, spoken
from tests.collector import collecting
from tests.running import answer_of, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually


class TestUploads:
    async def test_bodies_made_to_hurt_are_refused_in_words_before_a_backend_hears_of_them(self) -> None:
        def chat(rest: str) -> bytes:
            return ('{"model":"m1","messages":[{"role":"user","content":"q"}],' + rest + "}").encode()

        bad = {
            "deep arrays": chat('"x":' + "[" * 100_000 + "]" * 100_000),
            "deep objects": chat('"x":' + '{"a":' * 100_000 + "1" + "}" * 100_000),
            "deep and open": chat('"x":' + "[" * 100_000),
            "NaN": chat('"temperature":NaN'),
            "Infinity": chat('"top_p":-Infinity'),
            "a number without end": chat('"seed":' + "9" * 100_000),
            "an exponent without end": chat('"seed":1e999999'),
            "a key twice": chat('"temperature":0,"temperature":1'),
            "a key twice inside": chat('"tools":[{"a":1,"a":2}]'),
            "a key twice by escapes": chat('"seed":1,"s\\u0065ed":2'),
            "no JSON": b"\xff\xfe{",
            "nothing": b"",
            "a list": b"[]",
            "two documents": chat('"a":1') * 2,
            "a million messages": b'{"model":"m1","messages":[' + b",".join([b"{}"] * 1_000_000) + b"]}",
            "a million numbers": chat('"x":[' + ",".join("1" * 1_000_000) + "]"),
            "a text without end": chat('"x":"' + '\\"' * 500_000)[:-1] + b",{[" * 100_000,
        }
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for name, body in bad.items():
                reply = await gateway.post(body)
                assert (name, reply.status_code) == (name, 400)
                assert len(reply.json()["error"]["message"]) < 300
            assert upstream.calls == []

    async def test_a_text_may_have_as_many_commas_and_braces_as_it_likes(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            assert (await gateway.chat('[{"a": 1, "b": [2]}],' * 100_000)).status_code == 200

    @pytest.mark.parametrize("encoding", ["gzip", "GZIP", "identity, gzip", "deflate", "br", "gzip, gzip"])
    async def test_a_packed_bomb_is_refused_in_words_before_it_is_unpacked(self, encoding: str) -> None:
        bomb = gzip.compress(b" " * (64 << 20))
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.post(bomb, headers={"content-encoding": encoding})
            expected = {
                "deflate": (400, "invalid_encoding"),
                "br": (400, "invalid_encoding"),
                "gzip, gzip": (415, "unsupported_encoding"),
            }.get(encoding, (413, "request_too_large"))
            assert (reply.status_code, reply.json()["error"]["code"]) == expected
        assert upstream.calls == []

    async def test_who_announces_too_much_and_asks_first_is_told_before_sending(self) -> None:
        """`Expect: 100-continue`, as curl does with large bodies."""
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            head = post_head(gateway, content_length=str(2 << 30), expect="100-continue")
            status, _, body = await spoken(gateway, head)
            assert (status, json.loads(body)["error"]["code"]) == (413, "request_too_large")

    async def test_who_asks_first_with_a_body_that_fits_is_let_go_on(self) -> None:
        body = chat_body()
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
            connection(gateway) as (r, w),
        ):
            w.write(post_head(gateway, content_length=str(len(body)), expect="100-continue"))
            assert (await asyncio.wait_for(r.readuntil(b"\r\n\r\n"), 20)).startswith(b"HTTP/1.1 100 ")
            w.write(body)
            assert (await asyncio.wait_for(r.readuntil(b"\r\n"), 20)).startswith(b"HTTP/1.1 200 ")

    async def test_an_upload_without_end_is_cut_off_and_never_gathered(self) -> None:
        sent = 0

        async def pieces() -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1 << 20
                yield b" " * (1 << 20)

        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, server={"body_limit_mib": 1}) as gateway,
        ):
            headers = {"authorization": f"Bearer {gateway.key}"}
            try:
                reply = await asyncio.wait_for(
                    gateway.client.post("/v1/chat/completions", content=pieces(), headers=headers), 60
                )
                assert reply.status_code == 413
            except (OSError, httpx.TransportError):
                pass  # cut off in the middle of a write: it has been refused as well
            assert sent < 200 << 20
            await gateway.idle()

    async def test_a_large_body_within_the_limit_arrives_whole(self) -> None:
        picture = "QUJD" * (5 << 20)
        content = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{picture}"}}]
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, server={"body_limit_mib": 32}) as gateway,
        ):
            reply = await gateway.chat(content)
            assert reply.status_code == 200
            assert upstream.calls[0].json["messages"][0]["content"] == content


class TestProbes:
    async def test_liveness_answers_while_every_backend_and_the_store_hang(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, store={"deadline_ms": 50}) as gateway,
        ):
            await gateway.chat()
            upstream.hang(times=20)
            gateway.valkey.hang()
            asking = [
                asyncio.create_task(gateway.chat(f"{'long ' * 20_000}{number}")) for number in range(20)
            ]
            await upstream.wait_calls(21, 20)
            for _ in range(10):
                live = await asyncio.wait_for(gateway.client.get("/health/live"), 5)
                ready = await asyncio.wait_for(gateway.client.get("/health/ready"), 5)
                assert (live.status_code, ready.status_code, ready.json()["status"]) == (200, 200, "degraded")
            gateway.valkey.resume()
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)

    async def test_probes_need_no_key_and_are_never_limited_traced_or_sent_on(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
            async with running_gateway(upstream) as gateway:
                spent = await gateway.new_key(rate_per_s=0.01, burst=1)
                await gateway.chat(key=spent)
                assert (await gateway.chat(key=spent)).status_code == 429
                for headers in ({}, {"authorization": f"Bearer {spent}"}, {"authorization": "Bearer wrong"}):
                    for path in ("/health/live", "/health/ready", "/health/live/"):
                        got, head, options, post = [
                            await gateway.client.request(method, path, headers=headers)
                            for method in ("GET", "HEAD", "OPTIONS", "POST")
                        ]
                        assert [r.status_code for r in (got, head, options, post)] == [200, 200, 204, 405]
                        assert (head.content, head.headers["content-length"]) == (b"", str(len(got.content)))
                        assert options.headers["allow"] == "GET, HEAD, OPTIONS"
                        assert "x-trace-id" not in got.headers
                assert len(upstream.calls) == 1
                await gateway.idle()
            await eventually(lambda: len({span.trace_id for span in collector.spans}) >= 2)
            assert len({span.trace_id for span in collector.spans}) == 2

    async def test_other_methods_and_places_are_answered_in_words_too(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = {"authorization": f"Bearer {gateway.key}"}
            listed = await gateway.client.head("/v1/models", headers=key)
            assert (listed.status_code, listed.content) == (200, b"")
            assert (await gateway.client.options("/v1/models")).headers["allow"] == "GET, HEAD, OPTIONS"
            for path in ("/", "/metrics", "/docs", "/openapi.json", "/admin/keys", "/health", "/v1"):
                for method in ("GET", "POST"):
                    reply = await gateway.client.request(method, path)
                    assert (path, reply.status_code, reply.json()["error"]["code"]) == (
                        path,
                        404,
                        "not_found",
                    )


class TestProxies:
    async def test_what_a_stranger_says_it_forwards_is_not_believed(
        self, capfd: pytest.CaptureFixture[str]
    ) -> None:
        forged = {
            "x-forwarded-for": "203.0.113.9",
            "x-forwarded-host": "evil.example",
            "x-forwarded-proto": "https",
        }
        forged |= {"forwarded": "for=203.0.113.9;host=evil.example", "x-real-ip": "203.0.113.9"}
        forged |= {"x-forwarded-prefix": "/llm"}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            replies = [await gateway.chat(headers=forged), await gateway.chat(key="wrong", headers=forged)]
            missing = await gateway.client.get("/nothing", headers=forged)
            assert [reply.status_code for reply in (*replies, missing)] == [200, 401, 404]
            told = "".join(f"{reply.text}{dict(reply.headers)}" for reply in (*replies, missing))
            assert not set(forged) & set(upstream.calls[0].headers)
        for trace in ("203.0.113.9", "evil.example", "/llm"):
            assert trace not in told + capfd.readouterr().err

    async def test_there_is_no_redirect_to_lose_a_prefix_or_a_body_on(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for path in ("/v1/chat/completions/", "/v1/models/", "/health/live/", "/v1", "/docs", ""):
                reply = await gateway.client.post(
                    path, content=chat_body(), headers={"x-forwarded-prefix": "/llm"}
                )
                assert not reply.is_redirect
                assert "location" not in reply.headers


async def test_answers_and_usage_are_counted_though_each_client_closed_at_the_last_byte() -> None:
    body = chat_body
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for number in range(100):
            raw = body(f"question {number}")
            await spoken(gateway, post_head(gateway, connection="close", content_length=str(len(raw))) + raw)
        await gateway.idle()
        replies = [await gateway.chat(f"question {number}") for number in range(100)]
        assert {reply.headers["x-cache"] for reply in replies} == {"HIT-EXACT"}
        assert len({answer_of(reply) for reply in replies}) == len(upstream.calls) == 100
