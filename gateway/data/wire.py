"""An HTTP request and its reply over bare ASGI: bounded reading, one place where headers are written.

No framework stands here: a route inside FastAPI costs more than everything else a cache hit does.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from backends import encode

from ..errors import ApiError
from ..flight import ClientLeft
from .compression import LEAST_BYTES, Compression, StreamGzip, choose, compressed
from .decompression import decompressed
from .refusals import too_large, too_slow, unsupported_type

Scope = MutableMapping[str, Any]  # as ASGI defines it
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

_JSON = re.compile(rb"(?:application|text)/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.I)
# What is written in one go is held in memory until the client has read it.
_SLICE_BYTES = 64 << 10
_KEEP_ALIVE = b": keep-alive\n\n"

# The sender of a body that is not wanted hears of it only once it stops sending, so a bounded rest is read and dropped.
_DRAIN_BYTES = 128 << 20
_DRAIN_S = 5.0
_BODY_S = 30.0


@dataclass(slots=True)
class Request:
    """What a handler needs of an ASGI request. `headers` holds the value of each lower-case name; of a name that
    comes several times all of them in order, joined by commas: one of them may be `no-store`.

    `model` is the one that the path names (None: the body does), which then stands for the body's.
    """

    method: str
    path: str
    raw_headers: Headers
    receive: Receive
    client: str = "unknown"  # the address that asks
    model: str | None = None
    is_here: bool = False  # all of it has come already
    headers: dict[bytes, bytes] = field(init=False)
    is_read: bool | None = field(init=False, default=None)  # None: nobody has asked for the body yet

    def __post_init__(self) -> None:
        self.headers = dict(self.raw_headers)
        if len(self.headers) < len(self.raw_headers):
            values: dict[bytes, list[bytes]] = {}
            for name, value in self.raw_headers:
                values.setdefault(name, []).append(value)
            self.headers = {name: b", ".join(several) for name, several in values.items()}

    async def body(self, limit_bytes: int, *, is_json: bool = True) -> bytes:
        """The whole body, unpacked. Raises TooLarge, InvalidRequest (wrong type or coding, too slow) or ClientLeft."""
        type_ = self.headers.get(b"content-type", b"application/json")
        if is_json and type_ != b"application/json" and not _JSON.fullmatch(type_):
            raise unsupported_type(type_)
        announced = self.headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > limit_bytes:
            raise too_large(limit_bytes)
        data = (await self._next())["body"] if self.is_here else await self._whole(limit_bytes)
        if len(data) > limit_bytes:
            raise too_large(limit_bytes)
        if b"content-encoding" in self.headers and (coding := self._coding()):
            return await decompressed(data, coding, limit_bytes=limit_bytes)
        return data

    def _coding(self) -> str:
        """Of the body; more than one, as they are."""
        said = b",".join(value for name, value in self.raw_headers if name == b"content-encoding")
        codings = [coding.strip() for coding in said.decode("latin-1").lower().split(",")]
        return ", ".join(coding for coding in codings if coding not in ("", "identity"))

    async def _whole(self, limit_bytes: int) -> bytes:
        """As it comes, or a little more than the limit of it. The timer does what asyncio.timeout would, for less."""
        task, is_late = asyncio.current_task(), False

        def give_up() -> None:
            nonlocal is_late
            is_late = task is not None and task.cancel()

        timer = asyncio.get_running_loop().call_later(_BODY_S, give_up)
        try:
            message = await self._next()
            data: bytes | bytearray = message.get("body", b"")
            if message.get("more_body"):
                data = bytearray(data)
            while message.get("more_body") and len(data) <= limit_bytes:
                message = await self._next()
                data += message.get("body", b"")
        except asyncio.CancelledError as error:
            if not is_late or task is None or task.uncancel() > 0:
                raise
            raise too_slow(_BODY_S) from error
        finally:
            timer.cancel()
        return bytes(data)

    async def _next(self) -> Message:
        message = await self.receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        self.is_read = not message.get("more_body")
        return message

    async def drain(self) -> bool:
        """Read and drop a bounded rest of the body; False: there is more, so nothing can follow on this connection."""
        if self.is_read is None and self.headers.get(b"expect", b"").lower() == b"100-continue":
            return False  # it waits to be told to send; to read would be to tell it so
        dropped = 0
        try:
            async with asyncio.timeout(_DRAIN_S):
                while not self.is_read and dropped < _DRAIN_BYTES:
                    dropped += len((await self._next()).get("body", b""))
        except (TimeoutError, ClientLeft):
            pass  # it has had its chance to hear the answer
        return bool(self.is_read)


@asynccontextmanager
async def departure(request: Request, on_left: Callable[[], None]) -> AsyncIterator[None]:
    """Calls `on_left` if the client goes away meanwhile. The request's body must have been read."""

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        on_left()

    watching = asyncio.create_task(watch())
    try:
        yield
    finally:
        watching.cancel()


@dataclass(frozen=True, slots=True)
class Delivery:
    """How replies travel, as the deployment has decided. `keep_alive_s` None: no comments on silent streams."""

    compression: Compression = "replies"
    keep_alive_s: float | None = 15.0


_AS_USUAL = Delivery()


class Reply:
    """The one reply to a request. Whatever goes wrong after the first byte ends in an error frame, never in silence.

    Whoever makes one calls `stop` when the request is over, whatever way.
    """

    def __init__(
        self,
        send: Send,
        *,
        is_head: bool = False,
        accept_encoding: bytes | None = None,
        delivery: Delivery = _AS_USUAL,
    ) -> None:
        self._send = send
        self._is_head = is_head
        self._accept_encoding = accept_encoding
        self._delivery = delivery
        self._gzip: StreamGzip | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._commenting: asyncio.Task[None] | None = None
        self._written_s = 0.0
        self._is_writing = False
        self.headers: Headers = []  # on every reply to this request, errors included
        self.status = 0
        self.first_byte_s: float | None = None
        self.is_stream = False
        self.is_ended = False
        self.sent_events = 0
        self.as_error_frame: Callable[[ApiError], bytes] = _error_frame

    def add(self, name: str, value: str | float) -> None:
        self.headers.append((name.encode(), str(value).encode("latin-1", "replace")))

    async def whole(self, status: int, body: bytes, *, content_type: bytes = b"application/json") -> None:
        self.status, self.is_ended = status, True
        if len(body) >= LEAST_BYTES and not self._is_head and self._delivery.compression != "off":
            body = await self._compressed(body)
        length = str(len(body)).encode()
        headers = [(b"content-type", content_type), (b"content-length", length), *self.headers]
        self.first_byte_s = time.monotonic()
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._write(b"" if self._is_head else body, more=False)

    async def empty(self) -> None:
        """204."""
        self.status, self.is_ended = 204, True
        await self._send({"type": "http.response.start", "status": 204, "headers": self.headers})
        await self._send({"type": "http.response.body", "body": b""})

    async def start_stream(self) -> None:
        self.status, self.is_stream = 200, True
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache, no-transform"),
            (b"x-accel-buffering", b"no"),
            *self.headers,
        ]
        if self._delivery.compression == "streams":
            headers.append((b"vary", b"accept-encoding"))
            if self._accept_encoding and choose(self._accept_encoding, ("gzip",)):
                self._gzip = StreamGzip()
                headers.append((b"content-encoding", b"gzip"))
        self.first_byte_s = time.monotonic()
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})
        if self._delivery.keep_alive_s is not None:
            self._written_s = self.first_byte_s
            self._tick()

    async def events(self, frames: Sequence[bytes]) -> None:
        """Server-sent events, encoded, as many as there are, in one write."""
        if frames:
            self.sent_events += len(frames)
            await self._write(b"".join(frames), more=True)

    async def end(self, last: Iterable[bytes] = ()) -> None:
        self.is_ended = True
        await self._write(b"".join(last), more=False)

    def stop(self) -> None:
        """Nothing more is written by itself."""
        if self._ticking is not None:
            self._ticking.cancel()
            if self._commenting is not None:
                self._commenting.cancel()

    async def _write(self, block: bytes, *, more: bool) -> None:
        """In slices, each of which waits until the client has taken most of those before."""
        self._is_writing = True
        if self._gzip is not None:
            block = self._gzip.feed(block) if more else self._gzip.end(block)
        rest = 0
        while len(block) - rest > _SLICE_BYTES:
            piece = block[rest : rest + _SLICE_BYTES]
            rest += _SLICE_BYTES
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        block = block[rest:] if rest else block
        await self._send({"type": "http.response.body", "body": block, "more_body": more})
        self._is_writing = False
        self._written_s = time.monotonic()

    async def _compressed(self, body: bytes) -> bytes:
        self.headers.append((b"vary", b"accept-encoding"))
        coding = choose(self._accept_encoding) if self._accept_encoding else None
        if coding is None:
            return body
        self.headers.append((b"content-encoding", coding.encode()))
        return await compressed(body, coding)

    def _tick(self) -> None:
        """Write a comment whenever nothing was written for `keep_alive_s`: to proxies, silence looks like death."""
        silence_s = self._delivery.keep_alive_s
        if silence_s is None or self.is_ended:
            return
        left_s = self._written_s + silence_s - time.monotonic()
        if left_s <= 0:
            self._commenting = asyncio.create_task(self._comment())
        self._ticking = asyncio.get_running_loop().call_later(left_s if left_s > 0 else silence_s, self._tick)

    async def _comment(self) -> None:
        if not self._is_writing and not self.is_ended:  # never within an event that is sent in slices
            await self._write(_KEEP_ALIVE, more=True)

    async def fail(self, error: ApiError) -> None:
        if self.is_stream:
            await self.end([self.as_error_frame(error)])
            return
        for name, value in error.headers.items():
            self.add(name, value)
        await self.whole(error.status, error.body())


def _error_frame(error: ApiError) -> bytes:
    return encode(error.body())
