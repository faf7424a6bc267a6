"""uvicorn's HTTP protocol, made to suit old clients, and bounded against slow and rude ones.

HTTP/1.0 (nginx asks its upstreams like that unless told otherwise) gets its body without chunks, which it does not
know: it ends with the connection. Headers must come in time and be of a size; whoever does not read is cut off.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from ..errors import error_body

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

# What a scope has as its `extensions` once the whole request has come: then nobody has to watch how long it takes.
ALL_HERE: dict[str, dict[object, object]] = {"echogate.all_here": {}}

_MOST_HEADER_BYTES = 64 << 10
# Who is still sending when it is refused would not hear the answer over the reset of a closed socket.
_LINGER_S = 1.0


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's, for HTTP/1.1 and 1.0.

    A connection is closed when the headers of a request take longer than `header_s` (from its first byte; on a new
    connection from its beginning), and when what was written waits for its reader longer than `stall_s`.
    """

    header_s = 30.0
    stall_s = 30.0

    _late: asyncio.TimerHandle | None = None  # set while headers are awaited
    _stalled: asyncio.TimerHandle | None = None  # set while the client's buffers are full
    _header_bytes = 0
    _is_in_headers = False
    _is_refused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._late = self.loop.call_later(self.header_s, self._refuse_late)

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop(self._late)
        self._stop(self._stalled)
        self._late = self._stalled = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        super().data_received(data)
        if not self._is_in_headers or self._is_refused:
            return
        # Rare: headers in more than one piece.
        self._header_bytes += len(data)
        if self._header_bytes > _MOST_HEADER_BYTES:
            self._refuse(431, f"The headers are larger than {_MOST_HEADER_BYTES} bytes.", "headers_too_large")
        elif self._late is None:
            self._late = self.loop.call_later(self.header_s, self._refuse_late)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_headers, self._header_bytes = True, 0

    def on_headers_complete(self) -> None:
        self._is_in_headers = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        super().on_headers_complete()
        # The application has not run yet: its task begins with a later turn of the loop.
        if self.parser.get_http_version() == "1.0" and self.cycle is not None:
            self.cycle.__class__ = _UnchunkedCycle
            self.cycle.chunked_encoding = False

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self.scope["extensions"] = ALL_HERE

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._stalled is None:
            self._stalled = self.loop.call_later(self.stall_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._stop(self._stalled)
        self._stalled = None
        super().resume_writing()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg, "invalid_http")

    def _refuse_late(self) -> None:
        self._late = None
        if self.cycle is not None and not self.cycle.response_complete:
            # The answer to the request before is still on its way; nothing may come in between.
            self._late = self.loop.call_later(self.header_s, self._refuse_late)
        elif self._is_in_headers:
            self._refuse(
                408, f"The headers did not arrive within {self.header_s:g} seconds.", "request_timeout"
            )
        else:  # it has not even begun: there is nothing to answer
            self.transport.close()

    def _refuse(self, status: int, message: str, code: str) -> None:
        body = error_body(message, type_="invalid_request_error", param=None, code=code)
        head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(
            body
        )
        self.transport.write(STATUS_LINE[status] + head + body)
        self._is_refused = True
        self._stop(self._late)
        self._late = self.loop.call_later(_LINGER_S, self.transport.close)

    @staticmethod
    def _stop(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


class _UnchunkedCycle(RequestResponseCycle):
    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body":
            # uvicorn checks the body against an announced length; here each piece has just the length it has.
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
