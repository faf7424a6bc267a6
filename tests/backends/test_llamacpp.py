"""The pool against a real model server: llama.cpp, with its own streams, its own disconnects, its own death."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack

import pytest

from backends import Event, Exchange, Member, Poller, Pools, Signals, Timeouts, UpstreamBroken, VllmBackend
from tests.backends.asking import events, member, pools, request
from tests.backends.llama import ALIAS, Llama, command, free_port, is_answering, running_llama
from tests.scripted import ScriptedUpstream

TIMEOUTS = Timeouts(connect_s=5.0, first_byte_s=60.0, idle_s=30.0)


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    with running_llama() as server:
        yield server


def llama_pools(llama: Llama, *more: Member, revision: str | None = "1") -> Pools:
    """The llama is asked first."""
    first = Member("llama", llama.base_url, ALIAS, revision=revision, weight=1e9)
    return pools(first, *more, timeouts=TIMEOUTS)


async def say(asked: Pools, text: str, *, stream: bool, max_tokens: int) -> Exchange:
    fields = {"messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}
    sent = request(stream=stream, temperature=0, **{"ignore_eos": max_tokens > 100, **fields})
    return await asked.open(asked.resolve("m"), sent, deadline_s=time.monotonic() + 60)


async def until(is_so: Callable[[], bool], within_s: float) -> None:
    async with asyncio.timeout(within_s):
        while not await asyncio.to_thread(is_so):  # noqa: ASYNC110 - another process has no event to wait on
            await asyncio.sleep(0.02)


async def test_it_answers_and_its_version_is_guessed(llama: Llama) -> None:
    async with llama_pools(llama, revision=None) as asked:
        assert asked.resolve("m").revision.startswith("guess-")
        async with await say(asked, "Hi", stream=False, max_tokens=8) as exchange:
            assert json.loads(await exchange.read(1 << 20))["choices"][0]["message"]["content"]


async def test_it_streams(llama: Llama) -> None:
    async with llama_pools(llama) as asked:
        seen = await events(await say(asked, "Hi", stream=True, max_tokens=8))
    assert len(seen) > 4
    assert seen[-1] == Event(b"[DONE]")


async def test_an_abandoned_stream_frees_its_slot_within_a_second(llama: Llama) -> None:
    async with llama_pools(llama) as asked:
        async with await say(asked, "Count to a thousand", stream=True, max_tokens=900) as exchange:
            async for _ in exchange.batches():
                break
            assert llama.busy_slots() == 1
        await until(lambda: llama.busy_slots() == 0, within_s=1.0)


async def test_its_queue_is_seen_and_routed_around(llama: Llama) -> None:
    """Six requests, four of which it serves at once; none of them went through the pool that is asked then."""
    seen: list[Signals] = []
    watched = Member("llama", llama.base_url, ALIAS, revision="1")
    backend = VllmBackend()
    async with ScriptedUpstream() as idle, AsyncExitStack() as stack:
        elsewhere = await stack.enter_async_context(llama_pools(llama))
        asked = await stack.enter_async_context(pools(watched, member("idle", idle), timeouts=TIMEOUTS))
        poller = Poller([watched], backend=backend, on_signals=seen.append, interval_s=0.1)
        stack.push_async_callback(backend.aclose)
        await stack.enter_async_context(poller)
        await until(lambda: bool(seen) and seen[-1].health == "ok" and seen[-1].running == 0, within_s=20)
        busy = [
            asyncio.create_task(say(elsewhere, f"Count {number}", stream=True, max_tokens=400))
            for number in range(6)
        ]
        await until(lambda: (seen[-1].running, seen[-1].waiting) == (4, 2), within_s=30)
        asked.update_signals(seen)
        async with await say(asked, "Hi", stream=False, max_tokens=4) as exchange:
            assert exchange.member == "idle"
        for task in busy:
            task.cancel()
        for opened in await asyncio.gather(*busy, return_exceptions=True):
            if isinstance(opened, Exchange):
                opened.close()
        await until(lambda: seen[-1].running == 0, within_s=20)
    assert (seen[-1].dialect, seen[-1].missing) == ("llama.cpp", ())


async def test_a_refusal_closes_the_connection_and_the_next_call_still_works(llama: Llama) -> None:
    async with llama_pools(llama) as asked:
        bad = request(messages="not a list")
        async with await asked.open(asked.resolve("m"), bad, deadline_s=time.monotonic() + 10) as exchange:
            assert exchange.status >= 400
            await exchange.read(1 << 20)
        async with await say(asked, "Hi", stream=False, max_tokens=2) as exchange:
            assert exchange.status == 200


async def test_killed_in_mid_stream_it_breaks_the_stream_and_is_left_alone() -> None:
    with running_llama() as doomed:
        async with ScriptedUpstream() as other, llama_pools(doomed, member("other", other)) as asked:
            exchange = await say(asked, "Count to a thousand", stream=True, max_tokens=900)
            doomed.process.kill()
            with pytest.raises(UpstreamBroken):
                await events(exchange)
            assert exchange.member == "llama"
            assert asked.in_flight() == {"llama": 0, "other": 0}
            async with await say(asked, "Hi", stream=False, max_tokens=2) as after:
                assert after.member == "other"


def test_it_ends_on_sigterm() -> None:
    with running_llama() as llama:
        llama.process.send_signal(signal.SIGTERM)
        assert llama.process.wait(timeout=5) == 0


async def test_it_ends_with_its_parent() -> None:
    port = free_port()
    script = f"import subprocess, time; subprocess.Popen({command(port)!r}); time.sleep(600)"
    quiet = subprocess.DEVNULL
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=quiet, stderr=quiet)
    try:
        await until(lambda: is_answering(port), within_s=60)
    finally:
        parent.kill()
        await parent.wait()
    await until(lambda: not is_answering(port), within_s=5)


def test_a_missing_file_is_named() -> None:
    options = ["--port", "1", "--alias", "a", "--model", "/nowhere/model.gguf"]
    done = subprocess.run(
        [sys.executable, "-m", "backends.launch.llamacpp", *options],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "/nowhere/model.gguf" in done.stderr
