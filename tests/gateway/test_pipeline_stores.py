"""A store that hangs, dies or comes back is never an error of a request: what goes on, and what comes back."""

from __future__ import annotations

import asyncio

from gateway.host.control import KeyChanged
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually

PROMPT = {"deadline_ms": 50}


class TestStoreTrouble:
    async def test_a_hung_store_is_a_miss_within_the_deadline_and_hits_come_back(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream, store=PROMPT) as gateway:
            await gateway.chat("before")
            gateway.valkey.hang()
            replies = [await gateway.chat("before") for _ in range(10)]
            assert {r.status_code for r in replies} == {200}
            assert {r.headers["x-cache"] for r in replies} == {"MISS"}
            ready = await gateway.client.get("/health/ready")
            assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
            assert (await gateway.client.get("/health/live")).status_code == 200
            gateway.valkey.resume()
            await self.until_hit(gateway, "before")
            assert (await gateway.client.get("/health/ready")).json()["status"] == "ok"

    async def test_a_killed_store_leaves_known_keys_and_local_limits_and_comes_back_with_its_data(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream, store=PROMPT) as gateway:
            limited = await gateway.new_key(rate_per_s=1, burst=3)
            for known in (limited, gateway.key):
                assert (await gateway.chat(key=known)).status_code == 200
            stranger = await gateway.new_key()
            await gateway.valkey.kill()
            statuses = [(await gateway.chat(f"q{n}", key=limited)).status_code for n in range(5)]
            assert statuses == [200, 200, 200, 429, 429]
            unknown = await gateway.chat(key=stranger)
            assert (unknown.status_code, unknown.json()["error"]["code"]) == (503, "auth_unavailable")
            await gateway.valkey.start()
            await self.until_hit(gateway, "after")
            assert (await gateway.chat(key=stranger)).status_code == 200

    async def test_requests_go_on_while_the_store_hangs_dies_and_returns_under_traffic(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream, store=PROMPT) as gateway:
            statuses: list[int] = []
            is_over = False

            async def client(name: int) -> None:
                number = 0
                while not is_over:
                    statuses.append((await gateway.chat(f"{name}-{number % 5}")).status_code)
                    number += 1

            clients = [asyncio.create_task(client(name)) for name in range(4)]
            await eventually(lambda: len(statuses) > 40)
            gateway.valkey.hang()
            await eventually(lambda: len(statuses) > 100)
            gateway.valkey.resume()
            await eventually(lambda: len(statuses) > 160)
            await gateway.valkey.kill()
            await eventually(lambda: len(statuses) > 220)
            await gateway.valkey.start()
            await eventually(lambda: len(statuses) > 300, within_s=20)
            is_over = True
            await asyncio.gather(*clients)
            assert set(statuses) == {200}
            await self.until_hit(gateway, "0-0")

    async def test_a_flush_while_a_stream_runs_keeps_its_answer_out(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream, store=PROMPT) as gateway:
            upstream.chunk_delay_s = 0.05
            async with gateway.chat_stream("q") as reply:
                lines = reply.aiter_lines()
                await anext(lines)
                await gateway.plane.cache.flush("acme/default/m1")
                rest = [line async for line in lines]
            assert "data: [DONE]" in rest
            assert (await gateway.chat("q")).headers["x-cache"] == "MISS"

    async def until_hit(self, gateway: RunningGateway, content: str) -> None:
        async with asyncio.timeout(10):
            while (await gateway.chat(content)).headers["x-cache"] != "HIT-EXACT":  # noqa: ASYNC110
                await asyncio.sleep(0.02)


async def test_a_revoked_key_is_forgotten_at_the_nudge():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key()
        assert (await gateway.chat(key=key)).status_code == 200
        key_id = key.split("-")[1]
        await gateway.disable(key)
        gateway.control(KeyChanged(key_id))
        assert (await gateway.chat(key=key)).status_code == 401
