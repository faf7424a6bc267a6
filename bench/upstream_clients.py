"""Which HTTP client may speak to model servers: CPU per call of pyreqwest and aiohttp, and whether each behaves.

`python -m bench.upstream_clients` prints a table and, as its last line, one JSON object. CPU is user + system time of
this process with all its threads; the server runs in a process of its own. Both clients run on uvloop, as they would
under uvicorn.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import multiprocessing
import os
import resource
import socket
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol, cast

import aiohttp
import uvloop
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

from tests.scripted import CUT, HANG, ScriptedUpstream, delta

CONCURRENCY = 16
ROUNDS = 5
JSON_CALLS = 2_000
STREAMS = 400
PATH = "/v1/chat/completions"
ANSWER = json.dumps({"choices": [{"message": {"content": "x" * 850}}]}).encode()
CHUNK = b"data: " + json.dumps(delta("word ")).encode() + b"\n\n"
ERRORS = (aiohttp.ClientError, PyreqwestError, TimeoutError, OSError)


class Client(Protocol):
    """What is compared: a POST read whole, a POST read as it comes."""

    async def post(self, url: str, body: bytes) -> tuple[int, bytes, dict[str, str]]: ...

    def stream(self, url: str, body: bytes) -> contextlib.AbstractAsyncContextManager[AsyncIterator[Any]]: ...

    async def close(self) -> None: ...


class Pyreqwest:
    def __init__(self, *, limit: int = 512, connect_s: float = 1.0, idle_s: float = 1.0) -> None:
        builder = ClientBuilder().no_proxy().follow_redirects(False).referer(False).max_connections(limit)
        builder = builder.gzip(False).brotli(False).zstd(False).deflate(False)
        builder = builder.connect_timeout(timedelta(seconds=connect_s)).read_timeout(
            timedelta(seconds=idle_s)
        )
        self._client = builder.build()

    async def post(self, url: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        request = self._client.post(url).header("content-type", "application/json").body_bytes(body)
        async with request.build_streamed() as response:
            return response.status, (await response.bytes()).to_bytes(), dict(response.headers.items())

    @contextlib.asynccontextmanager
    async def stream(self, url: str, body: bytes) -> AsyncIterator[AsyncIterator[Any]]:
        request = self._client.post(url).header("content-type", "application/json").body_bytes(body)
        # By default entering waits until the body ends or 64 KiB of it are there: no stream at all.
        async with request.streamed_read_buffer_limit(0).build_streamed() as response:
            yield self._chunks(response.body_reader)

    async def _chunks(self, reader: Any) -> AsyncIterator[Any]:
        while (chunk := await reader.read_chunk()) is not None:
            yield chunk.to_bytes()

    async def close(self) -> None:
        await self._client.close()


class Aiohttp:
    def __init__(self, *, limit: int = 512, connect_s: float = 1.0, idle_s: float = 1.0) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=limit),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=idle_s),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding"),
            headers={"content-type": "application/json"},
        )

    async def post(self, url: str, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        async with self._session.post(url, data=body, allow_redirects=False) as response:
            return response.status, await response.read(), dict(response.headers.items())

    @contextlib.asynccontextmanager
    async def stream(self, url: str, body: bytes) -> AsyncIterator[AsyncIterator[Any]]:
        response = await self._session.post(url, data=body, allow_redirects=False)
        try:
            yield response.content.iter_any()
        finally:
            response.close()  # a body not read to its end must not go back to the pool

    async def close(self) -> None:
        await self._session.close()


CLIENTS: dict[str, Callable[..., Client]] = {"pyreqwest": Pyreqwest, "aiohttp": Aiohttp}


# Cost


class _FastServer(asyncio.Protocol):
    """Answers every POST at once: JSON, or 64 SSE chunks in separate writes when the path ends with `stream`."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:

        self._transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own
        self._buffer = b""

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, separator, rest = self._buffer.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or 0)
        if not separator or len(rest) < length:
            return
        self._buffer = b""
        if b"/stream " in head:
            self._transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
            )
            asyncio.get_running_loop().call_soon(self._chunk, 64)
        else:
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
                ANSWER
            )
            self._transport.write(head + ANSWER)

    def _chunk(self, left: int) -> None:
        if left:
            self._transport.write(b"%x\r\n%b\r\n" % (len(CHUNK), CHUNK))
            asyncio.get_running_loop().call_later(0.001, self._chunk, left - 1)
        else:
            self._transport.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")


def _serve(listener: socket.socket) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_FastServer, sock=listener)
        await server.serve_forever()

    uvloop.run(main())


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def _cpu_us_per_call(call: Callable[[], Awaitable[None]], count: int) -> float:
    async def worker() -> None:
        for _ in range(count // CONCURRENCY):
            await call()

    before = _cpu_s()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return (_cpu_s() - before) / count * 1e6


async def measure(base_url: str) -> dict[str, dict[str, float]]:
    """CPU microseconds a call, least of interleaved rounds (noise only adds)."""
    seen: dict[str, dict[str, list[float]]] = {name: {"json": [], "sse": []} for name in CLIENTS}
    body = json.dumps({"messages": [{"content": "y" * 900}]}).encode()
    for _ in range(ROUNDS):
        for name, make in CLIENTS.items():
            client = make()

            async def one_json(client: Client = client) -> None:
                status, answer, _ = await client.post(base_url + "/json", body)
                assert status == 200
                assert answer == ANSWER

            async def one_stream(client: Client = client) -> None:
                size = 0
                async with client.stream(base_url + "/stream", body) as chunks:
                    async for chunk in chunks:
                        size += len(chunk)
                assert size == 64 * len(CHUNK) + 14

            await _cpu_us_per_call(one_json, 160)
            seen[name]["json"].append(await _cpu_us_per_call(one_json, JSON_CALLS))
            seen[name]["sse"].append(await _cpu_us_per_call(one_stream, STREAMS))
            await client.close()
    return {
        name: {
            f"{kind}_{what}": round(f(values)) for kind, values in kinds.items() for what, f in _STATS.items()
        }
        for name, kinds in seen.items()
    }


_STATS: dict[str, Callable[[list[float]], float]] = {"min_us": min, "median_us": statistics.median}


# Behaviour: every check returns what it saw, "ok" where that is what a gateway needs


async def _close_within(call: Any) -> str:
    started_s = time.monotonic()
    try:
        closed_s = await call.wait_closed(1.0)
    except TimeoutError:
        return "NOT CLOSED in 1 s"
    return f"ok ({max(closed_s - started_s, 0) * 1e3:.0f} ms)"


async def closing_mid_stream(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    upstream.stream([delta("a"), HANG])
    client = make()
    async with client.stream(upstream.base_url + PATH, b"{}") as chunks:
        await anext(chunks)
    verdict = await _close_within(upstream.calls[-1])
    await client.close()
    return verdict


async def cancelling_mid_stream(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def cancelling_before_headers(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    upstream.hang()
    client, seen = make(), len(upstream.calls)
    task = asyncio.create_task(client.post(upstream.base_url + PATH, b"{}"))
    await upstream.wait_calls(seen + 1)
    task.cancel()
    await asyncio.wait([task])
    verdict = await _close_within(upstream.calls[-1])
    await client.close()
    return verdict


async def pool_limit(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    upstream.first_byte_delay_s = 0.05
    client, first = make(limit=4), len(upstream.calls)
    await asyncio.gather(*(client.post(upstream.base_url + PATH, b"{}") for _ in range(12)))
    used = len({call.connection for call in upstream.calls[first:]})
    upstream.first_byte_delay_s = 0.0
    await client.close()
    return "ok" if used <= 4 else f"{used} connections for a limit of 4"


async def reuse_after_error_replies(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    client, first = make(), len(upstream.calls)
    for status in (503, 400, 200):
        upstream.reply_json({}, status=status)
        await client.post(upstream.base_url + PATH, b"{}")
    used = len({call.connection for call in upstream.calls[first:]})
    await client.close()
    return "ok" if used == 1 else f"{used} connections"


async def idle_socket_closed_by_server(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def reused_socket_cut_without_answer(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def body_cut_short(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def idle_timeout(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def connect_timeout(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def redirects_returned(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    client = make()
    upstream.reply_json({}, status=307, location="/elsewhere")
    status, _, _ = await client.post(upstream.base_url + PATH, b"{}")
    await client.close()
    return "ok" if status == 307 else f"followed: {status}"


async def proxy_environment_ignored(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
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


async def bodies_untouched(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    client, packed = make(), gzip.compress(b"{}")
    upstream.reply(packed, content_encoding="gzip")
    _, body, _ = await client.post(upstream.base_url + PATH, b"{}")
    await client.close()
    extra = set(upstream.calls[-1].headers) - {"host", "content-type", "content-length"}
    return ("ok" if body == packed else "DECOMPRESSED") + (
        f" (also sends {', '.join(sorted(extra))})" if extra else ""
    )


async def slow_reader_slows_server(make: Callable[..., Client], upstream: ScriptedUpstream) -> str:
    """A reader that stops must stop the server, else the client buffers without bound."""
    client = make(idle_s=5.0)
    sent = 0

    async def flood(call: Any, wire: Any) -> None:
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


CHECKS: list[Callable[[Callable[..., Client], ScriptedUpstream], Awaitable[str]]] = [
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


async def main() -> None:
    behaviour: dict[str, dict[str, str]] = {check.__name__: {} for check in CHECKS}
    async with ScriptedUpstream() as upstream:
        for check in CHECKS:
            for name, make in CLIENTS.items():
                behaviour[check.__name__][name] = await check(make, upstream)

    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = multiprocessing.get_context("spawn").Process(target=_serve, args=(listener,), daemon=True)
    server.start()
    try:
        cost = await measure(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.terminate()
        server.join()
        listener.close()

    print(f"{'':34}" + "".join(f"{name:38}" for name in CLIENTS))
    for kind in ("json_min_us", "json_median_us", "sse_min_us", "sse_median_us"):
        print(f"{kind:34}" + "".join(f"{cost[name][kind]:<38}" for name in CLIENTS))
    for what, seen in behaviour.items():
        print(f"{what:34}" + "".join(f"{seen[name]:38}" for name in CLIENTS))
    print(json.dumps({"bench": "upstream_clients", "cpu": cost, "behaviour": behaviour}))


if __name__ == "__main__":
    uvloop.run(main())
