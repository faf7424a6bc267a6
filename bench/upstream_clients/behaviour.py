"""How a client behaves: every check returns what it saw, "ok" where that is what a gateway needs."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import time
from collections.abc import Awaitable, Callable

from tests.scripted import CUT, HANG, Call, ScriptedUpstream, Wire, delta

from .clients import ERRORS, PATH, Client

Make = Callable[..., Client]


async def _close_within(call: Call) -> str:
    started_s = time.monotonic()
    try:
        closed_s = await call.wait_closed(1.0)
    except TimeoutError:
        return "NOT CLOSED in 1 s"
    return f"ok ({max(closed_s - started_s, 0) * 1e3:.0f} ms)"


async def closing_mid_stream(make: Make, upstream: ScriptedUpstream) -> str:
    upstream.stream([delta("a"), HANG])
    client = make()
    async with client.stream(upstream.base_url + PATH, b"{}") as chunks:
        await anext(chunks)
    verdict = await _close_within(upstream.calls[-1])
    await client.close()
    return verdict


async def cancelling_mid_stream(make: Make, upstream: ScriptedUpstream) -> str:
    upstream.stream([delta("a"), HANG])
    client = make()

    async def read() -> None:
        async with client.stream(upstream.base_url + PATH, b"{}") as chunks:
            async for _ in chunks:
                got.set()

    got = asyncio.Event()
    task = asyncio.create_task(read())
    await got.wait()
    task.cancel()
    await asyncio.wait([task])
    verdict = await _close_within(upstream.calls[-1])
    await client.close()
    return verdict


async def cancelling_before_headers(make: Make, upstream: ScriptedUpstream) -> str:
    upstream.hang()
    client, seen = make(), len(upstream.calls)
    task = asyncio.create_task(client.post(upstream.base_url + PATH, b"{}"))
    await upstream.wait_calls(seen + 1)
    task.cancel()
    await asyncio.wait([task])
    verdict = await _close_within(upstream.calls[-1])
    await client.close()
    return verdict


async def pool_limit(make: Make, upstream: ScriptedUpstream) -> str:
    upstream.first_byte_delay_s = 0.05
    client, first = make(limit=4), len(upstream.calls)
    await asyncio.gather(*(client.post(upstream.base_url + PATH, b"{}") for _ in range(12)))
    used = len({call.connection for call in upstream.calls[first:]})
    upstream.first_byte_delay_s = 0.0
    await client.close()
    return "ok" if used <= 4 else f"{used} connections for a limit of 4"


async def reuse_after_error_replies(make: Make, upstream: ScriptedUpstream) -> str:
    client, first = make(), len(upstream.calls)
    for status in (503, 400, 200):
        upstream.reply_json({}, status=status)
        await client.post(upstream.base_url + PATH, b"{}")
    used = len({call.connection for call in upstream.calls[first:]})
    await client.close()
    return "ok" if used == 1 else f"{used} connections"


async def idle_socket_closed_by_server(make: Make, upstream: ScriptedUpstream) -> str:
    client = make()
    upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", CUT)
    await client.post(upstream.base_url + PATH, b"{}")
    await asyncio.sleep(0.05)
    try:
        status, _, _ = await client.post(upstream.base_url + PATH, b"{}")
    except ERRORS as error:
        return f"{type(error).__name__}"
    finally:
        await client.close()
    return "ok" if status == 200 else str(status)


async def reused_socket_cut_without_answer(make: Make, upstream: ScriptedUpstream) -> str:
    """The race proper: only the caller can repeat a POST, so an error it can tell apart is what we need."""
    client, first = make(), len(upstream.calls)
    await client.post(upstream.base_url + PATH, b"{}")
    upstream.cut()
    try:
        status, _, _ = await client.post(upstream.base_url + PATH, b"{}")
    except ERRORS as error:
        return f"ok ({type(error).__name__})"
    finally:
        await client.close()
    return f"sent {len(upstream.calls) - first} times, {status}"


async def body_cut_short(make: Make, upstream: ScriptedUpstream) -> str:
    client = make()
    upstream.stream([delta("a"), CUT])
    try:
        async with client.stream(upstream.base_url + PATH, b"{}") as chunks:
            async for _ in chunks:
                pass
    except ERRORS as error:
        return f"ok ({type(error).__name__})"
    finally:
        await client.close()
    return "looks complete"


async def idle_timeout(make: Make, upstream: ScriptedUpstream) -> str:
    client = make(idle_s=0.2)
    upstream.stream([delta("a"), HANG])
    started_s = time.monotonic()
    try:
        async with asyncio.timeout(2), client.stream(upstream.base_url + PATH, b"{}") as chunks:
            async for _ in chunks:
                pass
    except ERRORS as error:
        return f"ok ({type(error).__name__} after {time.monotonic() - started_s:.2f} s)"
    finally:
        await client.close()
    return "no error"


async def connect_timeout(make: Make, upstream: ScriptedUpstream) -> str:
    listener = socket.create_server(("127.0.0.1", 0), backlog=0)
    fillers = [socket.socket() for _ in range(4)]  # the backlog is full: SYNs are dropped
    for filler in fillers:
        filler.setblocking(False)
        filler.connect_ex(listener.getsockname())
    client, started_s = make(connect_s=0.3, idle_s=5.0), time.monotonic()
    try:
        async with asyncio.timeout(2):
            await client.post(f"http://127.0.0.1:{listener.getsockname()[1]}/", b"{}")
    except ERRORS as error:
        return f"ok ({type(error).__name__} after {time.monotonic() - started_s:.2f} s)"
    finally:
        await client.close()
        for sock in (listener, *fillers):
            sock.close()
    return "no error"


async def redirects_returned(make: Make, upstream: ScriptedUpstream) -> str:
    client = make()
    upstream.reply_json({}, status=307, location="/elsewhere")
    status, _, _ = await client.post(upstream.base_url + PATH, b"{}")
    await client.close()
    return "ok" if status == 307 else f"followed: {status}"


async def proxy_environment_ignored(make: Make, upstream: ScriptedUpstream) -> str:
    os.environ["HTTP_PROXY"] = os.environ["http_proxy"] = "http://127.0.0.1:9"
    client = make()
    try:
        status, _, _ = await client.post(upstream.base_url + PATH, b"{}")
    except ERRORS as error:
        return type(error).__name__
    finally:
        await client.close()
        del os.environ["HTTP_PROXY"], os.environ["http_proxy"]
    return "ok" if status == 200 else str(status)


async def bodies_untouched(make: Make, upstream: ScriptedUpstream) -> str:
    client, packed = make(), gzip.compress(b"{}")
    upstream.reply(packed, content_encoding="gzip")
    _, body, _ = await client.post(upstream.base_url + PATH, b"{}")
    await client.close()
    extra = set(upstream.calls[-1].headers) - {"host", "content-type", "content-length"}
    return ("ok" if body == packed else "DECOMPRESSED") + (
        f" (also sends {', '.join(sorted(extra))})" if extra else ""
    )


async def slow_reader_slows_server(make: Make, upstream: ScriptedUpstream) -> str:
    """A reader that stops must stop the server, else the client buffers without bound."""
    client = make(idle_s=5.0)
    sent = 0

    async def flood(_: Call, wire: Wire) -> None:
        nonlocal sent
        await wire.head(content_type="text/event-stream", transfer_encoding="chunked")
        while sent < 64 << 20 and wire.unsent_bytes < 1 << 20:
            await wire.chunk(b"x" * 65536)
            sent += 65536
        await wire.cue(HANG)

    upstream.script(flood)
    async with client.stream(upstream.base_url + PATH, b"{}") as chunks:
        await anext(chunks)
        await asyncio.sleep(0.5)
    await client.close()
    return "ok" if sent < 64 << 20 else "buffers without bound"


CHECKS: list[Callable[[Make, ScriptedUpstream], Awaitable[str]]] = [
    closing_mid_stream,
    cancelling_mid_stream,
    cancelling_before_headers,
    pool_limit,
    reuse_after_error_replies,
    idle_socket_closed_by_server,
    reused_socket_cut_without_answer,
    body_cut_short,
    idle_timeout,
    connect_timeout,
    redirects_returned,
    proxy_environment_ignored,
    bodies_untouched,
    slow_reader_slows_server,
]
