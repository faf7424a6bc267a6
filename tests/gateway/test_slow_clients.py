"""Clients that are slow or rude on the wire: headers that never end, bodies that do not come, replies nobody reads."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.data import wire
from gateway.data.protocol import HttpProtocol
from tests.cases.speaking import chat_body, connection, post_head, spoken
from tests.running import RunningGateway, running_gateway
from tests.scripted import HANG, ScriptedUpstream, completion, delta
from tests.valkey import eventually


async def until_closed(gateway: RunningGateway, *parts: bytes) -> bytes:
    """What comes back before the gateway closes; the client itself sends no more and waits."""
    async with connection(gateway) as (reader, writer):
        for part in parts:
            writer.write(part)
        async with asyncio.timeout(20):
            return await reader.read()


class TestHeaders:
    async def test_headers_that_do_not_end_are_answered_and_cut_off(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HttpProtocol, "header_s", 0.2)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            half = post_head(gateway)[:-2]
            for parts in ((half,), (half[:5],), (half, b"x: y\r\n")):
                reply = await until_closed(gateway, *parts)
                assert reply.startswith(b"HTTP/1.1 408")
                assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_timeout"
            assert await until_closed(gateway) == b""  # who never began is owed no answer

    async def test_the_second_request_of_a_connection_has_the_same_deadline(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HttpProtocol, "header_s", 0.2)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            body = chat_body()
            whole = post_head(gateway, content_length=str(len(body))) + body
            replies = await until_closed(gateway, whole, b"POST /v1/chat/completions HTTP/1.1\r\nho")
        assert replies.startswith(b"HTTP/1.1 200")
        assert replies.count(b"HTTP/1.1 408") == 1

    async def test_headers_have_a_bound(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await until_closed(
                gateway, post_head(gateway)[:-2], *[b"x: " + b"y" * 8000 + b"\r\n"] * 20
            )
        assert reply.startswith(b"HTTP/1.1 431")

    async def test_a_slow_sender_within_the_deadline_is_served(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            body = chat_body()
            request = post_head(gateway, connection="close", content_length=str(len(body))) + body
            async with connection(gateway) as (reader, writer):
                for at in range(0, len(request), 7):
                    writer.write(request[at : at + 7])
                    await asyncio.sleep(0.001)
                assert (await reader.read()).startswith(b"HTTP/1.1 200")


class TestBodies:
    @pytest.mark.parametrize("sent", [0, 5])
    async def test_a_body_that_does_not_come_is_a_408(
        self, monkeypatch: pytest.MonkeyPatch, sent: int
    ) -> None:
        monkeypatch.setattr(wire, "_BODY_S", 0.2)
        monkeypatch.setattr(wire, "_DRAIN_S", 0.1)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            body = chat_body()
            reply = await until_closed(
                gateway, post_head(gateway, content_length=str(len(body))), body[:sent]
            )
            assert reply.startswith(b"HTTP/1.1 408")
            assert json.loads(reply.partition(b"\r\n\r\n")[2])["error"]["code"] == "request_timeout"
            await eventually(lambda: gateway.plane.in_flight == 0)
        assert upstream.calls == []

    @pytest.mark.parametrize("is_announced", [True, False])
    async def test_a_body_of_100_mb_is_refused_and_never_held(self, is_announced: bool) -> None:
        piece, pieces = b" " * (1 << 20), 100
        length = {"content_length": str(len(piece) * pieces)}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            head = post_head(gateway, **(length if is_announced else {"transfer_encoding": "chunked"}))
            async with connection(gateway) as (reader, writer):
                writer.write(head)
                try:
                    for _ in range(pieces):
                        writer.write(piece if is_announced else b"100000\r\n" + piece + b"\r\n")
                        await writer.drain()
                    writer.write(b"" if is_announced else b"0\r\n\r\n")
                except ConnectionError:
                    pass  # it may be cut off once it has been told
                async with asyncio.timeout(20):
                    reply = await reader.readuntil(b"}}")
        assert reply.startswith(b"HTTP/1.1 413")
        assert upstream.calls == []


class TestReplies:
    async def test_who_does_not_read_a_long_answer_is_cut_off(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(HttpProtocol, "stall_s", 0.3)
        cache = {"max_entry_kib": 65_536}
        async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
            text = "x" * (12 << 20)
            upstream.reply_json(completion(text))
            await gateway.chat("q")  # so that both of these are hits
            for stream in (False, True):
                body = chat_body(stream=stream)
                async with connection(gateway, receive_buffer=4096) as (_, writer):
                    writer.write(post_head(gateway, content_length=str(len(body))) + body)
                    await eventually(lambda: gateway.plane.in_flight == 1)
                    await eventually(lambda: gateway.plane.in_flight == 0)

    async def test_a_stream_nobody_reads_frees_its_backend(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(HttpProtocol, "stall_s", 0.3)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([*[delta("x" * 60_000)] * 200, HANG])
            body = chat_body(stream=True)
            async with connection(gateway, receive_buffer=4096) as (_, writer):
                writer.write(post_head(gateway, content_length=str(len(body))) + body)
                await upstream.wait_calls(1)
                await upstream.calls[0].wait_closed()
                await eventually(lambda: gateway.plane.in_flight == 0)
            assert set(gateway.plane.pools.in_flight().values()) == {0}

    async def test_who_reads_slowly_but_steadily_gets_everything(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(HttpProtocol, "stall_s", 5.0)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json(completion("x" * (6 << 20)))
            request = post_head(gateway, connection="close", content_length=str(len(chat_body())))
            received = 0
            async with connection(gateway, receive_buffer=65_536) as (reader, writer):
                writer.write(request + chat_body())
                while part := await reader.read(65_536):
                    received += len(part)
                    await asyncio.sleep(0.002)
        assert received > 6 << 20


async def test_requests_sent_ahead_are_answered_in_order() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        bodies = [chat_body(f"nonce-{number}") for number in range(5)]
        requests = [
            post_head(gateway, content_length=str(len(body)), **({"connection": "close"} if last else {}))
            + body
            for last, body in zip([False] * 4 + [True], bodies, strict=True)
        ]
        status, _, rest = await spoken(gateway, b"".join(requests))
        assert status == 200
        places = [rest.index(b"nonce-%d" % number) for number in range(5)]
        assert places == sorted(places)
