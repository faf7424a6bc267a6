"""Answers clients that speak HTTP/1.0 in their own way: without chunks, the body ends with the connection.

nginx asks its upstreams like that unless told otherwise. uvicorn would send them chunks, which HTTP/1.0 does not know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent


class HttpProtocol(HttpToolsProtocol):
    """uvicorn's, for HTTP/1.1 and 1.0."""

    def on_headers_complete(self) -> None:
        super().on_headers_complete()
        # The application has not run yet: its task begins with a later turn of the loop.
        if self.parser.get_http_version() == "1.0" and self.cycle is not None:
            self.cycle.__class__ = _UnchunkedCycle
            self.cycle.chunked_encoding = False


class _UnchunkedCycle(RequestResponseCycle):
    async def send(self, message: ASGISendEvent) -> None:
        if message["type"] == "http.response.body":
            # uvicorn checks the body against an announced length; here each piece has just the length it has.
            self.expected_content_length = len(message.get("body", b""))
        await super().send(message)
