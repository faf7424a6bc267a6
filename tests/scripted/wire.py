"""One socket of the scripted server: calls read from it, bytes and accidents sent back on it."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final, Protocol, cast

WAIT_S: Final = 5.0


class Cue:
    """What a script does instead of sending bytes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return self._name


CUT: Final = Cue("CUT")  # close the socket (FIN) in the middle
RESET: Final = Cue("RESET")  # close it with RST
HANG: Final = Cue("HANG")  # say nothing more until the peer hangs up

# dict: a `data:` frame of its JSON · str: a `data:` frame of the text · bytes: as they are · number: a pause
Part = Mapping[str, Any] | str | bytes | float | Cue


@dataclass(eq=False)
class Call:
    """A request as it arrived. `connection` numbers the sockets, so that reuse can be seen."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    connection: int
    arrived_s: float
    closed_s: float | None = None  # when the peer hung up before the reply was complete
    answered_s: float | None = None
    _closed: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    async def wait_closed(self, timeout_s: float = WAIT_S) -> float:
        """Seconds (monotonic) at which the peer closed this call's socket; TimeoutError if it did not."""
        async with asyncio.timeout(timeout_s):
            await self._closed.wait()
        assert self.closed_s is not None
        return self.closed_s

    def note_closed(self) -> None:
        if self.answered_s is None and self.closed_s is None:
            self.closed_s = time.monotonic()
            self._closed.set()


class Wire:
    """The way back to the caller. Sending to a caller that left raises ConnectionResetError."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def unsent_bytes(self) -> int:
        """What the peer has not taken yet: it grows when the peer does not read."""
        return self._connection.unsent_bytes

    async def send(self, data: bytes) -> None:
        await self._connection.send(data)

    async def head(self, status: int = 200, **headers: str) -> None:
        """Status line and headers; keywords become names: `content_type="text/html"`."""
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.send(("\r\n".join(lines) + "\r\n\r\n").encode("latin-1"))

    async def reply(
        self, body: bytes, *, status: int = 200, content_type: str = "application/json", **headers: str
    ) -> None:
        await self.head(status, content_type=content_type, content_length=str(len(body)), **headers)
        await self.send(body)

    async def json(self, value: Any, *, status: int = 200, **headers: str) -> None:
        await self.reply(json.dumps(value).encode(), status=status, **headers)

    async def stream(
        self,
        parts: Iterable[Part],
        *,
        status: int = 200,
        content_type: str = "text/event-stream",
        **headers: str,
    ) -> None:
        """A chunked body, one HTTP chunk a part, ended properly unless a cue ends it."""
        await self.head(status, content_type=content_type, transfer_encoding="chunked", **headers)
        for part in parts:
            if isinstance(part, Cue):
                return await self.cue(part)
            if isinstance(part, int | float):
                await asyncio.sleep(part)
            else:
                await self.chunk(part)
        return await self.send(b"0\r\n\r\n")

    async def chunk(self, part: Mapping[str, Any] | str | bytes) -> None:
        data = part if isinstance(part, bytes) else _frame(part)
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def cue(self, cue: Cue) -> None:
        if cue is HANG:
            await self._connection.wait_peer_gone()
        else:
            self._connection.drop(with_reset=cue is RESET)


class Server(Protocol):
    def opened(self, connection: Connection) -> int:
        """Gives the connection its number."""
        ...

    def closed(self, connection: Connection) -> None: ...

    async def answer(self, call: Call, wire: Wire) -> None: ...


class Connection(asyncio.Protocol):
    """One socket: requests one after the other, and an eye on the peer the whole time."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._buffer = bytearray()
        self._news = asyncio.Event()
        self._peer_gone = asyncio.Event()
        self._call: Call | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:

        self._transport = cast(asyncio.Transport, transport)  # uvloop has transports of its own
        self._number = self._server.opened(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._news.set()

    def eof_received(self) -> bool:
        self._peer_left()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.closed(self)
        self._peer_left()

    def _peer_left(self) -> None:
        self._peer_gone.set()
        self._news.set()
        if self._call is not None:
            self._call.note_closed()

    async def _serve(self) -> None:
        try:
            while (call := await self._read_call()) is not None:
                self._call = call
                await self._server.answer(call, Wire(self))
        except ConnectionResetError:
            pass  # the caller left in the middle, as callers do
        finally:
            self._transport.close()

    async def _read_call(self) -> Call | None:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not await self._more():
                return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        total = end + 4 + int(headers.get("content-length", 0))
        while len(self._buffer) < total:
            if not await self._more():
                return None
        body = bytes(self._buffer[end + 4 : total])
        del self._buffer[:total]
        method, path, _ = first.split(" ", 2)
        return Call(method, path, headers, body, self._number, time.monotonic())

    async def _more(self) -> bool:
        self._news.clear()
        if not self._peer_gone.is_set():
            await self._news.wait()
        return not self._peer_gone.is_set()

    async def send(self, data: bytes) -> None:
        if self._peer_gone.is_set() or self._transport.is_closing():
            raise ConnectionResetError
        self._transport.write(data)
        await asyncio.sleep(0)  # let what was written leave on its own

    @property
    def unsent_bytes(self) -> int:
        return self._transport.get_write_buffer_size()

    async def wait_peer_gone(self) -> None:
        await self._peer_gone.wait()

    def drop(self, *, with_reset: bool) -> None:
        if self._call is not None:
            self._call.answered_s = time.monotonic()  # this end hung up, not the peer
        if with_reset:
            sock: socket.socket = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._transport.abort()
        else:
            self._transport.close()

    def die(self) -> asyncio.Task[None]:
        if self._call is not None and self._call.answered_s is None:
            self._call.answered_s = time.monotonic()
        self._transport.abort()
        self._task.cancel()
        return self._task


def _frame(part: Mapping[str, Any] | str) -> bytes:
    text = part if isinstance(part, str) else json.dumps(part)
    return b"data: " + text.encode() + b"\n\n"
