"""What stores did to other caches: came late, were emptied or of another version, took names for patterns."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from gateway.admin.model import Name
from gateway.settings.reading import Settings
from gateway.store.client import StoreClient
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, answer_of, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually, running_valkey

PROMPT: dict[str, Any] = {"deadline_ms": 50}
SEMANTIC = {"embedder": {"kind": "onnx", "model": str(prepared_model())}}
NAMES = ["org/m1:latest", "m 1", "a|b", "x}", "*", "m*", "{00}", "\"'", "a\\b", "n" * 300, "名", "a\nb"]


@dataclass
class SlowStore:
    """A store behind a wire on which everything takes `delay_s` longer, up to twice that."""

    url: str
    delay_s: float = 0.0


@asynccontextmanager
async def slow(url: str) -> AsyncIterator[SlowStore]:
    place, store = url.removeprefix("unix://"), SlowStore("")
    pumps: set[asyncio.Task[Any]] = set()
    ends: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                # Later, but never before what came before it.
                due = max(due + 1e-6, loop.time() + store.delay_s * random.uniform(1, 2))
                loop.call_at(due, writer.write, data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        ends.append(writer)
        with contextlib.suppress(OSError):
            there, back = await asyncio.open_unix_connection(place)
            ends.append(back)
            pumps.update(asyncio.create_task(pump(*way)) for way in ((reader, back), (there, writer)))

    async with await asyncio.start_server(connected, "127.0.0.1", 0) as server:
        store.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield store
        finally:
            for task in pumps:
                task.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            for end in ends:
                end.transport.abort()


async def until_hit(gateway: RunningGateway, content: str, *, outcome: str = "HIT-EXACT") -> None:
    async with asyncio.timeout(20):
        while (await gateway.chat(content)).headers["x-cache"] != outcome:
            await gateway.idle()


async def test_nobody_hears_anothers_answer_on_a_slow_store_that_many_leave() -> None:
    """A reply that comes for somebody who has left belongs to nobody else."""
    async with running_valkey() as valkey, slow(valkey.url) as store, ScriptedUpstream() as upstream:
        store.delay_s = 0.01
        async with running_gateway(upstream, valkey=valkey, cache_url=store.url) as gateway:
            keys = [await gateway.new_key(tenant) for tenant in ("acme", "umbrella", "initech")]
            heard: Counter[str] = Counter()

            async def client(number: int) -> None:
                chance, key = random.Random(number), keys[number % 3]
                for turn in range(6):
                    word = f"nonce-{number // 6}-{turn % 3}"
                    asking = asyncio.create_task(gateway.chat(f"Say {word} to {number % 3}", key=key))
                    if chance.random() < 0.5:
                        await asyncio.sleep(chance.uniform(0, 0.08))
                        asking.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        reply = await asking
                        heard[reply.headers["x-cache"]] += 1
                        assert [each for each in answer_of(reply).split() if "nonce-" in each] == [word]

            await asyncio.gather(*(client(number) for number in range(40)))
        assert heard["MISS"]
        assert heard["HIT-EXACT"]


async def test_a_blip_of_the_cache_store_costs_hits_for_a_moment_only() -> None:
    async with running_valkey() as valkey, slow(valkey.url) as store, ScriptedUpstream() as upstream:
        async with running_gateway(upstream, valkey=valkey, cache_url=store.url, store=PROMPT) as gateway:
            await gateway.chat("before")
            await until_hit(gateway, "before")
            store.delay_s = 0.3
            began, cpu = time.monotonic(), time.process_time()
            asked = 0
            while time.monotonic() - began < 1:
                assert (await gateway.chat("before")).status_code == 200
                asked += 1
            spent = time.process_time() - cpu
            store.delay_s = 0
            await until_hit(gateway, "before")
        assert asked > 4  # nobody waited for the store much longer than its deadline
        assert spent / asked < 0.25  # and no breaker span in a circle meanwhile


async def test_it_serves_while_the_cache_store_is_absent_and_takes_it_when_it_comes() -> None:
    async with running_valkey() as durable, running_valkey() as cache, ScriptedUpstream() as upstream:
        url = cache.url
        await cache.stop()
        async with running_gateway(upstream, valkey=durable, cache_url=url, store=PROMPT) as gateway:
            replies = [await gateway.chat("early") for _ in range(2)]
            assert [(each.status_code, each.headers["x-cache"]) for each in replies] == [(200, "MISS")] * 2
            ready = (await gateway.client.get("/health/ready")).json()
            assert ready["status"] == "degraded"
            assert any("cache" in reason for reason in ready["reasons"])
            await cache.start()
            await until_hit(gateway, "early")


async def test_a_wrong_password_is_told_without_the_password(capfd: pytest.CaptureFixture[str]) -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url) as admin:
        await admin.execute("CONFIG", "SET", "requirepass", "right-Zyxgard")
        url = valkey.url.replace("unix://", "unix://:wrong-Blorp@")
        async with StoreClient.open(url, name="cache store") as client:
            await eventually(lambda: client.state.reason not in (None, "not connected yet"))
            told = repr(client) + str(client.state) + "".join(capfd.readouterr())
        assert not client.is_up
        assert "WRONGPASS" in told or "password" in told.lower()
        assert "Blorp" not in told
        assert "Zyxgard" not in told


async def test_a_store_emptied_under_traffic_gives_hits_again_equal_and_similar() -> None:
    asked, same = "What is the capital city of France?", "What's the capital city of France?"
    async with (
        running_valkey() as durable,
        running_valkey() as cache,
        ScriptedUpstream() as upstream,
        running_gateway(upstream, valkey=durable, cache_url=cache.url, cache=SEMANTIC) as gateway,
        StoreClient.open(cache.url) as store,
    ):
        await gateway.chat(asked)
        await gateway.idle()
        assert (await gateway.chat(same)).headers["x-cache"] == "HIT-SEMANTIC"
        for _ in range(3):
            await store.execute("FLUSHALL")
            replies = [await gateway.chat(text) for text in (same, asked)]
            assert [each.status_code for each in replies] == [200, 200]
            await gateway.idle()
        await store.execute("FLUSHALL")
        assert (await gateway.chat(same)).headers["x-cache"] == "MISS"
        await gateway.idle()
        assert (await gateway.chat(asked)).headers["x-cache"] == "HIT-SEMANTIC"


async def test_what_another_version_wrote_is_a_miss_and_is_written_anew() -> None:
    """Every record says its format: one of before, or of after, is as if it were not there."""
    async with (
        running_valkey() as durable,
        running_valkey() as cache,
        ScriptedUpstream() as upstream,
        StoreClient.open(cache.url) as store,
    ):
        for form in (b"\x01", b"\x63"):
            async with running_gateway(
                upstream, valkey=durable, cache_url=cache.url, cache=SEMANTIC
            ) as gateway:
                await gateway.chat("What is a kettle for?")
                await until_hit(gateway, "What is a kettle for?")
            (name,) = await store.execute("KEYS", "*:e:*")
            await store.execute("SETRANGE", name, 0, form)
            (vector,) = await store.execute("KEYS", "*:v:*")
            await store.execute("SETRANGE", vector, 1, form)
            await store.execute("DEL", *await store.execute("KEYS", "*:changes"))
        async with running_gateway(upstream, valkey=durable, cache_url=cache.url, cache=SEMANTIC) as gateway:
            assert (await gateway.chat("What's a kettle for?")).headers["x-cache"] == "MISS"
            await until_hit(gateway, "What's a kettle for?")


async def test_no_name_of_a_model_is_a_pattern_or_breaks_out_of_a_key() -> None:
    async with ScriptedUpstream() as upstream:
        member = {"url": upstream.base_url, "model": "m", "revision": "r"}
        pools = {model: [member | {"name": f"server-{n}"}] for n, model in enumerate(NAMES)}
        sections: dict[str, Any] = {"pools": pools, "cache": {"embedder": {"kind": "none"}}}
        async with running_gateway(settings=Settings(**sections)) as gateway:
            for name in NAMES:
                assert (await gateway.chat("one question", model=name)).headers["x-cache"] == "MISS", name
                await gateway.idle()
            for name in NAMES:
                assert (await gateway.chat("one question", model=name)).headers["x-cache"] == "HIT-EXACT", (
                    name
                )
                assert (await gateway.chat("a second question", model=name)).headers["x-cache"] == "MISS", (
                    name
                )


@pytest.mark.parametrize("name", ["*", "a|b", "x}", "a/b", "", "a*", " ", "名", "n" * 65, "\"'", "a\\b"])
def test_no_tenant_can_have_a_name_that_says_more_than_itself(name: str) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Name).validate_python(name)
