"""Carries requests to vLLM, llama.cpp or any other OpenAI server, over pooled HTTP/1.1 connections (aiohttp).

aiohttp because it is the faster client that is right: pyreqwest costs less per JSON call, but does not close the
connection when a call is cancelled before its headers (`python -m bench.upstream_clients`).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextvars import ContextVar

import aiohttp
from aiohttp.connector import AddrInfoType

from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .model import Member, Outgoing

_KEEP_ALIVE_S = 30.0
_AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

# For whom sockets were opened while a request was sent. None means that it went over a reused connection; aiohttp's own
# tracing would tell too, but costs 3 us per received chunk.
_sockets_opened: ContextVar[list[AddrInfoType]] = ContextVar("sockets_opened")


class VllmBackend:
    """`max_connections` bounds the sockets to one member; waiting for a free one counts as connecting.

    Sessions belong to the event loop that sends first, so construct it anywhere.
    """

    def __init__(self, *, max_connections: int = 1024) -> None:
        self._max_connections = max_connections
        self._pooled: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    async def send(
        self, member: Member, request: Outgoing, *, connect_s: float, first_byte_s: float
    ) -> VllmReply:
        """Send, and wait for the head of the answer; see `Backend`."""
        try:
            async with asyncio.timeout(first_byte_s):
                response = await self._request(member, request, connect_s)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            raise _translated(error, member) from error
        return VllmReply(response, member)

    async def aclose(self) -> None:
        for session in (self._pooled, self._fresh):
            if session is not None:
                await session.close()
        self._pooled = self._fresh = None

    async def _request(self, member: Member, request: Outgoing, connect_s: float) -> aiohttp.ClientResponse:
        if self._pooled is None:
            self._pooled = self._session()
        sockets = _sockets_opened.set([])
        try:
            return await self._request_on(self._pooled, member, request, connect_s)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            is_reused = not _sockets_opened.get()
            if not is_reused or isinstance(error, aiohttp.ClientConnectorError):
                raise
        finally:
            _sockets_opened.reset(sockets)
        # The server closed an idle connection while this request was on its way: nothing is wrong with either.
        # Another idle connection may be as stale, so this one is made for the purpose.
        if self._fresh is None:
            self._fresh = self._session(force_close=True)
        return await self._request_on(self._fresh, member, request, connect_s)

    async def _request_on(
        self, session: aiohttp.ClientSession, member: Member, request: Outgoing, connect_s: float
    ) -> aiohttp.ClientResponse:
        headers = dict(request.headers)
        if member.api_key:
            headers["authorization"] = f"Bearer {member.api_key}"
        return await session.request(
            request.method,
            member.base_url.rstrip("/") + request.path,
            data=request.body,
            headers=headers,
            allow_redirects=False,
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_s),
        )

    def _session(self, *, force_close: bool = False) -> aiohttp.ClientSession:
        limits = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=self._max_connections,
            force_close=force_close,
            socket_factory=None if force_close else _open_socket,
            keepalive_timeout=None if force_close else _KEEP_ALIVE_S,
        )
        return aiohttp.ClientSession(
            connector=limits,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC_HEADERS,
        )


class VllmReply:
    """An aiohttp response whose errors speak of members."""

    def __init__(self, response: aiohttp.ClientResponse, member: Member) -> None:
        self._response = response
        self._member = member
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamBroken(f"{self._member.name} cut its answer short", reason="cut") from error

    def close(self) -> None:
        self._response.close()


def _open_socket(address: AddrInfoType) -> socket.socket:
    _sockets_opened.get().append(address)
    family, kind, protocol, _, _ = address
    return socket.socket(family, kind, protocol)


def _translated(error: Exception, member: Member) -> UpstreamFailed:
    name = member.name
    match error:
        case aiohttp.ConnectionTimeoutError():
            return UpstreamTimeout(f"{name} could not be connected to in time", reason="connect")
        case TimeoutError():
            return UpstreamTimeout(f"{name} did not begin its answer in time", reason="timeout")
        case aiohttp.ClientConnectorError():
            return UpstreamBroken(f"{name} could not be connected to", reason="connect")
        case aiohttp.ServerDisconnectedError() | OSError():
            return UpstreamBroken(f"{name} closed the connection without an answer", reason="reset")
        case _:
            return UpstreamBroken(f"{name} did not answer in HTTP", reason="not-http")
