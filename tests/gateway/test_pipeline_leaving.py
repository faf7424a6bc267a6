"""Clients that leave, at every moment: the backend is freed, nobody else notices, and nothing is lost that was due."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time

import httpx
import pytest

from tests.running import RunningGateway, answer_of, running_gateway, streamed_text
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually


class TestLeaving:
    async def leave(self, gateway: RunningGateway, *, stream: bool, after_chunks: int = 0) -> None:
        if not stream:
            asking = asyncio.create_task(gateway.chat("q"))
            await asyncio.sleep(0.15)
            asking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asking
            return
        async with gateway.chat_stream("q") as reply:
            seen = 0
            async for line in reply.aiter_lines():
                seen += line.startswith("data:")
                if seen >= after_chunks:
                    break

    @pytest.mark.parametrize("stream", [True, False])
    async def test_a_client_that_leaves_frees_the_backend_within_a_second(self, stream):
        async with ScriptedUpstream(words=400) as upstream, running_gateway(upstream) as gateway:
            upstream.chunk_delay_s = 0.02
            upstream.first_byte_delay_s = 0.0 if stream else 10
            await self.leave(gateway, stream=stream, after_chunks=3)
            left = time.monotonic()
            assert await upstream.calls[0].wait_closed() - left < 1
            await eventually(lambda: set(gateway.plane.pools.in_flight().values()) == {0})
            upstream.first_byte_delay_s = upstream.chunk_delay_s = 0
            assert (await gateway.chat("q")).headers["x-cache"] == "MISS"

    async def test_clients_that_come_and_go_leave_no_trace_of_a_fault(self, capfd):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            host, port = gateway.base_url.removeprefix("http://").split(":")
            body = json.dumps({"model": "m1", "messages": [{"role": "user", "content": "q"}]}).encode()
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {gateway.key}\r\n"
                f"content-length: {len(body)}\r\n\r\n"
            ).encode()
            for _ in range(200):
                _, writer = await asyncio.open_connection(host, int(port))
                writer.write(head + body[: random.randrange(len(body) + 1)])
                writer.close()
            await eventually(lambda: gateway.plane.in_flight == 0)
            await eventually(lambda: upstream.active == 0)
        log = capfd.readouterr().err
        assert "Traceback" not in log
        assert '"status":500' not in log
        assert '"status":499' in log

    async def test_whatever_comes_after_a_reply_is_done_though_the_client_closed_at_its_last_byte(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for number in range(100):
                async with httpx.AsyncClient(base_url=gateway.base_url, trust_env=False) as client:
                    await client.post(
                        "/v1/chat/completions",
                        json={"model": "m1", "messages": [{"role": "user", "content": f"q{number}"}]},
                        headers={"authorization": f"Bearer {gateway.key}"},
                    )
            for number in range(100):
                body = {"model": "m1", "messages": [{"role": "user", "content": f"q{number}"}]}
                assert (await gateway.post(json.dumps(body).encode())).headers["x-cache"] == "HIT-EXACT"
            assert len(upstream.calls) == 100


async def test_many_clients_some_of_which_leave_never_get_anothers_answer():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.chunk_delay_s = 0.002

        async def client(number: int) -> None:
            for turn in range(5):
                word = f"nonce-{number}-{turn}"
                if (number + turn) % 3 == 0:
                    async with gateway.chat_stream(word) as reply:
                        if turn % 2:
                            continue  # leaves
                        body = streamed_text((await reply.aread()).decode())
                else:
                    reply = await gateway.chat(word)
                    body = answer_of(reply)
                assert [heard for heard in body.split() if heard.startswith("nonce-")] == [word]

        await asyncio.gather(*[client(number) for number in range(60)])
        await eventually(lambda: gateway.plane.in_flight == 0)
