"""An HTTP request and its reply over bare ASGI: bounded reading, one place where headers are written.

No framework stands here: a route inside FastAPI costs more than everything else a cache hit does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from backends import encode

from ..errors import ApiError, InvalidRequest, TooLarge
from ..flight import ClientLeft

Scope = MutableMapping[str, Any]  # as ASGI defines it
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

# The sender of a body that is not wanted hears of it only once it stops sending, so a bounded rest is read and dropped.
_DRAIN_BYTES = 64 << 20
_DRAIN_S = 5.0
_BODY_S = 30.0


@dataclass(slots=True)
class Request:
    """What a handler needs of an ASGI request. `headers` holds the last value of each lower-case name."""

    method: str
    path: str
    raw_headers: Headers
    receive: Receive
    client: str = "unknown"  # the address that asks
    headers: dict[bytes, bytes] = field(init=False)
    is_read: bool | None = field(init=False, default=None)  # None: nobody has asked for the body yet

    def __post_init__(self) -> None:
        self.headers = dict(self.raw_headers)

    async def body(self, limit_bytes: int) -> bytes:
        """The whole body. Raises TooLarge, InvalidRequest (it came too slowly, or encoded) or ClientLeft."""
        encoding = self.headers.get(b"content-encoding", b"identity")
        if encoding.strip().lower() != b"identity":
            error = InvalidRequest(
                "Send the body without Content-Encoding; it is not decoded here.", code="unsupported_encoding"
            )
            error.status = 415
            raise error
        announced = self.headers.get(b"content-length", b"0")
        if not announced.isdigit() or int(announced) > limit_bytes:
            raise _too_large(limit_bytes)
        first = await self._next()
        if not first.get("more_body"):
            data: bytes = first.get("body", b"")
            if len(data) > limit_bytes:
                raise _too_large(limit_bytes)
            return data
        return await self._rest(first.get("body", b""), limit_bytes)

    async def _rest(self, first: bytes, limit_bytes: int) -> bytes:
        data = bytearray(first)
        try:
            async with asyncio.timeout(_BODY_S):
                while True:
                    message = await self._next()
                    data += message.get("body", b"")
                    if len(data) > limit_bytes:
                        raise _too_large(limit_bytes)
                    if not message.get("more_body"):
                        return bytes(data)
        except TimeoutError as error:
            slow = InvalidRequest(
                f"The body did not arrive within {_BODY_S:.0f} seconds.", code="request_timeout"
            )
            slow.status = 408
            raise slow from error

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


def _too_large(limit_bytes: int) -> TooLarge:
    return TooLarge(
        f"The body is larger than {limit_bytes} bytes; send less, or raise server.body_limit_mib.",
        headers={"x-should-retry": "false"},
    )


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


class Reply:
    """The one reply to a request. Whatever goes wrong after the first byte ends in an error frame, never in silence."""

    def __init__(self, send: Send, *, is_head: bool = False) -> None:
        self._send = send
        self._is_head = is_head
        self.headers: Headers = []  # on every reply to this request, errors included
        self.status = 0
        self.first_byte_s: float | None = None
        self.is_stream = False
        self.is_ended = False
        self.sent_events = 0

    def add(self, name: str, value: str | float) -> None:
        self.headers.append((name.encode(), str(value).encode("latin-1", "replace")))

    async def whole(self, status: int, body: bytes, *, content_type: bytes = b"application/json") -> None:
        self.status, self.is_ended = status, True
        length = str(len(body)).encode()
        headers = [(b"content-type", content_type), (b"content-length", length), *self.headers]
        self.first_byte_s = time.monotonic()
        await self._send({"type": "http.response.start", "status": status, "headers": headers})
        await self._send({"type": "http.response.body", "body": b"" if self._is_head else body})

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
        self.first_byte_s = time.monotonic()
        await self._send({"type": "http.response.start", "status": 200, "headers": headers})

    async def events(self, data: Iterable[bytes]) -> None:
        """Server-sent events, as many as there are, in one write."""
        encoded = [encode(event) for event in data]
        if encoded:
            self.sent_events += len(encoded)
            block = b"".join(encoded)
            await self._send({"type": "http.response.body", "body": block, "more_body": True})

    async def end(self, last: Iterable[bytes] = ()) -> None:
        self.is_ended = True
        block = b"".join([encode(event) for event in last])
        await self._send({"type": "http.response.body", "body": block})

    async def fail(self, error: ApiError) -> None:
        if self.is_stream:
            await self.end([error.body()])
            return
        for name, value in error.headers.items():
            self.add(name, value)
        await self.whole(error.status, error.body())
