"""The load generator, a process of its own: `python -m bench.load` with a plan on stdin.

Cheap, so that what it shares a machine with is what is measured; and strict: every reply's status, outcome and
completeness are checked, and one that is not as planned ends the run.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from dataclasses import dataclass
from typing import cast

import uvloop

from .messages import CHUNKS, SDK_HEADERS

_NAP_S = 0.002


@dataclass(frozen=True)
class Plan:
    """Each body is sent once, in turn, over so many connections. `outcome` is the expected x-cache and `reason` the
    expected x-cache-reason (None: no such header)."""

    port: int
    bodies: list[str]
    connections: int
    headers: dict[str, str]
    outcome: str | None
    reason: str | None = None
    is_stream: bool = False

    def requests(self) -> list[bytes]:
        head = "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (SDK_HEADERS | self.headers).items())
        return [f"{head}content-length: {len(body.encode())}\r\n\r\n{body}".encode() for body in self.bodies]


class Unexpected(Exception):
    """A reply that is not as planned."""


class _Connection(asyncio.Protocol):
    """Sends a request, reads its reply to the end, checks it, and takes the next one."""

    def __init__(self, run: _Run) -> None:
        self._run = run
        self._received = bytearray()
        self._needed = 0  # bytes of the whole reply, once its head is known; -1: until the last chunk

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._next()

    def connection_lost(self, error: Exception | None) -> None:
        self._run.failed("the connection was closed")

    def data_received(self, data: bytes) -> None:
        self._received += data
        if not self._needed:
            end = self._received.find(b"\r\n\r\n")
            if end < 0:
                return
            self._needed = self._read_head(bytes(self._received[:end]).lower(), end + 4)
        if len(self._received) >= self._needed if self._needed > 0 else self._received.endswith(b"0\r\n\r\n"):
            self._end()

    def _read_head(self, head: bytes, size: int) -> int:
        if not head.startswith(b"http/1.1 200 "):
            self._run.failed(f"the reply was {head[:200]!r}")
        found = _value(head, b"x-cache"), _value(head, b"x-cache-reason")
        if found != self._run.expected:
            self._run.failed(f"the cache said {found!r} where {self._run.expected!r} was expected")
        length = _value(head, b"content-length")
        return size + int(length) if length is not None else -1

    def _end(self) -> None:
        if self._run.is_stream and self._received.count(b"data: ") != CHUNKS + 1:
            self._run.failed(f"the stream had {self._received.count(b'data: ')} events")
        self._run.latencies_s.append(time.perf_counter() - self._sent_s)
        self._next()

    def _next(self) -> None:
        self._received.clear()
        self._needed = 0
        request = self._run.take()
        self._sent_s = time.perf_counter()
        if request is not None:
            self._transport.write(request)


class _Run:
    def __init__(self, plan: Plan) -> None:
        self._requests = iter(plan.requests())
        self._count = len(plan.bodies)
        self._over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.expected = tuple(word and word.lower().encode() for word in (plan.outcome, plan.reason))
        self.is_stream = plan.is_stream
        self.latencies_s: list[float] = []

    def take(self) -> bytes | None:
        if len(self.latencies_s) == self._count and not self._over.done():
            self._over.set_result(None)
        return next(self._requests, None)

    def failed(self, what: str) -> None:
        if not self._over.done():
            self._over.set_exception(Unexpected(what))

    async def over(self) -> None:
        await self._over


def _value(head: bytes, name: bytes) -> bytes | None:
    _, found, rest = head.partition(b"\r\n" + name + b": ")
    return rest.partition(b"\r\n")[0] if found else None


async def _nap() -> None:
    """Look only every few milliseconds at what has come. Whoever writes pays for waking a reader on the same machine,
    which readers elsewhere do not make it do; a busy reader is not woken, so that the quicker server would pay less."""
    while True:
        time.sleep(_NAP_S)  # noqa: ASYNC251 - to be away is the purpose
        await asyncio.sleep(0)


async def load(plan: Plan) -> dict[str, float]:
    run = _Run(plan)
    napping = asyncio.create_task(_nap()) if plan.connections > 1 else None
    started_s = time.perf_counter()
    loop = asyncio.get_running_loop()
    for _ in range(plan.connections):
        await loop.create_connection(lambda: _Connection(run), "127.0.0.1", plan.port)
    await run.over()
    if napping is not None:
        napping.cancel()
    return {
        "count": len(run.latencies_s),
        "seconds": time.perf_counter() - started_s,
        "p50_ms": statistics.median(run.latencies_s) * 1e3,
    }


if __name__ == "__main__":
    try:
        print(json.dumps(uvloop.run(load(Plan(**json.load(sys.stdin))))))
    except Unexpected as unexpected:
        sys.exit(f"bench.load: {unexpected}")
