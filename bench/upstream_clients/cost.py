"""What a call costs: CPU of this process against a server in a process of its own."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import socket
import statistics
from collections.abc import Awaitable, Callable
from typing import cast

import uvloop

from tests.scripted import delta

from .clients import CLIENTS, Client

CONCURRENCY = 16
ROUNDS = 5
JSON_CALLS = 2_000
STREAMS = 400
ANSWER = json.dumps({"choices": [{"message": {"content": "x" * 850}}]}).encode()
CHUNK = b"data: " + json.dumps(delta("word ")).encode() + b"\n\n"
_STATS: dict[str, Callable[[list[float]], float]] = {"min_us": min, "median_us": statistics.median}


async def measure() -> dict[str, dict[str, float]]:
    """CPU microseconds a call, least and median of interleaved rounds (noise only adds)."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=256)
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(listener,), daemon=True)
    server.start()
    try:
        return await _measure(f"http://127.0.0.1:{listener.getsockname()[1]}")
    finally:
        server.terminate()
        server.join()
        listener.close()


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


def serve(listener: socket.socket) -> None:
    async def main() -> None:
        server = await asyncio.get_running_loop().create_server(_FastServer, sock=listener)
        await server.serve_forever()

    uvloop.run(main())


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def cpu_us_per_call(call: Callable[[], Awaitable[None]], count: int) -> float:
    async def worker() -> None:
        for _ in range(count // CONCURRENCY):
            await call()

    before = _cpu_s()
    await asyncio.gather(*(worker() for _ in range(CONCURRENCY)))
    return (_cpu_s() - before) / count * 1e6


async def _measure(base_url: str) -> dict[str, dict[str, float]]:
    seen: dict[str, dict[str, list[float]]] = {name: {"json": [], "sse": []} for name in CLIENTS}
    body = json.dumps({"messages": [{"content": "y" * 900}]}).encode()
    for _ in range(ROUNDS):
        for name, make in CLIENTS.items():
            client = make(idle_s=30.0)

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

            await cpu_us_per_call(one_json, 160)
            seen[name]["json"].append(await cpu_us_per_call(one_json, JSON_CALLS))
            seen[name]["sse"].append(await cpu_us_per_call(one_stream, STREAMS))
            await client.close()
    return {
        name: {
            f"{kind}_{what}": round(f(values)) for kind, values in kinds.items() for what, f in _STATS.items()
        }
        for name, kinds in seen.items()
    }
