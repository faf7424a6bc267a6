"""Clients that leave or hardly read, by the hundred: nothing of them stays, and nobody else notices.

`make test-full` takes a thousand and two hundred of them, the quick run fewer.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import struct
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from auth import Limits
from tests.cases.speaking import chat_body, connection, post_head
from tests.running import RunningGateway, answer_of, running_gateway
from tests.scripted import HANG, ScriptedUpstream, completion, delta
from tests.valkey import eventually

MIB = 1 << 20
Leave = Callable[[RunningGateway, ScriptedUpstream, int], Awaitable[None]]


async def _leave_after(gateway: RunningGateway, sent: bytes, *, heard: bytes = b"", is_rude: bool) -> None:
    """Send this, wait until that was heard, and close: politely, or so that the other side gets a reset."""
    async with connection(gateway) as (reader, writer):
        writer.write(sent)
        await writer.drain()
        if heard:
            async with asyncio.timeout(60):
                await reader.readuntil(heard)
        if is_rude:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def _request(gateway: RunningGateway, number: int, *, stream: bool) -> bytes:
    body = chat_body(f"question {number}", stream=stream)
    return post_head(gateway, content_length=str(len(body))) + body


async def before_the_headers_end(gateway: RunningGateway, _: ScriptedUpstream, number: int) -> None:
    await _leave_after(gateway, post_head(gateway)[: number % 90], is_rude=number % 2 == 0)


async def within_the_body(gateway: RunningGateway, _: ScriptedUpstream, number: int) -> None:
    sent = post_head(gateway, content_length="5000") + chat_body()[: number % 50]
    await _leave_after(gateway, sent, is_rude=number % 2 == 0)


async def before_the_first_byte(gateway: RunningGateway, upstream: ScriptedUpstream, number: int) -> None:
    upstream.hang()
    known = len(upstream.calls)
    async with connection(gateway) as (_, writer):
        writer.write(_request(gateway, number, stream=number % 2 == 0))
        await eventually(lambda: len(upstream.calls) > known, within_s=60)


async def within_a_stream(gateway: RunningGateway, upstream: ScriptedUpstream, number: int) -> None:
    upstream.stream([delta("first"), HANG])
    await _leave_after(
        gateway, _request(gateway, number, stream=True), heard=b"first", is_rude=number % 2 == 0
    )


async def within_a_replay(gateway: RunningGateway, upstream: ScriptedUpstream, number: int) -> None:
    if number == 0:
        upstream.reply_json(completion("first " + "x" * MIB))
        await gateway.chat("long")
    body = chat_body("long", stream=number % 4 < 2)
    sent = post_head(gateway, content_length=str(len(body))) + body
    await _leave_after(gateway, sent, heard=b"first", is_rude=number % 2 == 0)


PHASES: list[Leave] = [
    before_the_headers_end,
    within_the_body,
    before_the_first_byte,
    within_a_stream,
    within_a_replay,
]


def _sockets() -> int:
    return sum("socket" in os.readlink(link) for link in Path("/proc/self/fd").iterdir() if link.is_symlink())


@pytest.mark.parametrize(
    "count", [60, pytest.param(1_000, marks=[pytest.mark.full, pytest.mark.timeout(600)])]
)
@pytest.mark.parametrize("leave", PHASES, ids=lambda leave: leave.__name__)
async def test_nothing_is_left_of_those_who_leave(
    leave: Leave, count: int, capfd: pytest.CaptureFixture[str]
) -> None:
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, cache={"max_entry_kib": 4096}) as gateway,
    ):
        limits = Limits(requests_per_s=5_000, burst=100_000, concurrent=4)
        gateway.key = await gateway.new_key(limits=limits)
        await gateway.chat("warm")
        await leave(gateway, upstream, 0)
        await _all_gone(gateway, upstream)
        tasks, sockets = len(asyncio.all_tasks()), _sockets()
        for number in range(1, count):
            await leave(gateway, upstream, number)
            if number % 3 == 0:  # so many places has the key; one that is not given back is missed soon
                await _all_gone(gateway, upstream)
        await _all_gone(gateway, upstream)
        await eventually(lambda: len(asyncio.all_tasks()) <= tasks)
        await eventually(lambda: _sockets() <= sockets + 4)  # of pools, which keep a few
        upstream.unscript()
        assert answer_of(await gateway.chat("and now?"))
    log = capfd.readouterr().err
    assert "Traceback" not in log
    assert '"status":500' not in log


async def _all_gone(gateway: RunningGateway, upstream: ScriptedUpstream) -> None:
    left = time.monotonic()
    await eventually(lambda: upstream.active == 0, within_s=30)
    await eventually(
        lambda: gateway.plane.in_flight == 0 and not any(gateway.plane.pools.in_flight().values())
    )
    assert time.monotonic() - left < 10  # a second where the machine has nothing else to do


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("count", "lasts_s"), [(40, 2), pytest.param(200, 10, marks=[pytest.mark.full, pytest.mark.timeout(300)])]
)
async def test_those_who_read_a_byte_a_second_delay_nobody_and_hold_a_bounded_memory(
    count: int, lasts_s: int
) -> None:
    """Clients, gateway and model server share this process, so all of their buffers are in the count."""
    text = "x" * 1024
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, cache={"max_entry_kib": 4096}) as gateway,
    ):
        upstream.reply_json(completion("y" * MIB))
        await gateway.chat("stored")
        await gateway.chat("What is a kettle for?")
        gc.collect()
        before = _resident_bytes()
        upstream.stream([*[delta(text)] * 1500, delta(finish="stop"), "[DONE]"], times=count // 2)
        door, begun = asyncio.Semaphore(8), asyncio.Semaphore(0)
        reading = [
            asyncio.create_task(_read_slowly(gateway, number, lasts_s, door, begun))
            for number in range(count)
        ]
        async with asyncio.timeout(120):
            for _ in range(count):
                await begun.acquire()
        peak = _resident_bytes()
        told = []
        while not (told and all(task.done() for task in reading)):
            async with asyncio.timeout(10):
                reply = await gateway.chat("What is a kettle for?")
            assert reply.status_code == 200
            told.append(reply.headers["x-cache"])
            peak = max(peak, _resident_bytes())
            await asyncio.sleep(0.05)
        await asyncio.gather(*reading)
        assert "HIT-EXACT" in told  # a store that shares this loop may be late now and then
        await eventually(lambda: gateway.plane.in_flight == 0)
        assert set(gateway.plane.pools.in_flight().values()) == {0}
    # A mebibyte of answer, as much of arrears, and the buffers on both sides.
    assert peak - before < count * 3 * MIB, f"{(peak - before) / count / MIB:.1f} MiB a client"


async def _read_slowly(
    gateway: RunningGateway, number: int, lasts_s: int, door: asyncio.Semaphore, begun: asyncio.Semaphore
) -> None:
    """Half of them what is stored, half a stream of their own. They come in by the door a few at a time."""
    body = (
        chat_body(f"own {number}", stream=True) if number % 2 else chat_body("stored", stream=number % 4 == 0)
    )
    async with connection(gateway, receive_buffer=4096) as (reader, writer):
        async with door:
            writer.write(post_head(gateway, content_length=str(len(body))) + body)
            async with asyncio.timeout(60):
                assert await reader.read(1)
        begun.release()
        for _ in range(lasts_s):
            assert await reader.read(1)
            await asyncio.sleep(1)
