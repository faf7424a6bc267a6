"""Carries requests to vLLM, llama.cpp or any other OpenAI server, over pooled HTTP/1.1 connections (aiohttp).

aiohttp because it is the faster client that is right: pyreqwest costs less per JSON call, but does not close the
connection when a call is cancelled before its headers (`python -m bench.upstream_clients`).
"""

from __future__ import annotations

import asyncio
import io
import socket
import time
from collections.abc import Mapping
from contextvars import ContextVar

import aiohttp
from aiohttp.connector import AddrInfoType

from .addresses import AddressRule, DeniedAddress
from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .model import Member, Outgoing

_KEEP_ALIVE_S = 30.0
_ONE_GO_BYTES = 1 << 20
_AUTOMATIC_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")

# For whom sockets were opened while a request was sent. None means that it went over a reused connection; aiohttp's own
# tracing would tell too, but costs 3 us per received chunk.
_sockets_opened: ContextVar[list[AddrInfoType]] = ContextVar("sockets_opened")


class VllmBackend:
    """`max_connections` bounds the sockets to one member; waiting for a free one counts as connecting.

    Names are looked up again after `dns_ttl_s`, and no connection takes new requests for longer than
    `max_connection_age_s`: by then at the latest a server that moved is found where it is now. `addresses` says
    where connections may lead; it is asked about the very address that is then connected to.
    Sessions belong to the event loop that sends first, so construct it anywhere.
    """

    def __init__(
        self,
        *,
        max_connections: int = 1024,
        max_connection_age_s: float = 300.0,
        dns_ttl_s: int = 10,
        addresses: AddressRule | None = None,
    ) -> None:
        self._max_connections = max_connections
        self._max_age_s = max_connection_age_s
        self._dns_ttl_s = dns_ttl_s
        self._addresses = addresses or AddressRule()
        self._pooled: _Connections | None = None
        self._fresh: _Connections | None = None
        self._retired: set[_Connections] = set()

    async def send(
        self, member: Member, request: Outgoing, *, connect_s: float, first_byte_s: float
    ) -> VllmReply:
        """Send, and wait for the head of the answer; see `Backend`."""
        sockets: list[AddrInfoType] = []
        token = _sockets_opened.set(sockets)
        try:
            async with asyncio.timeout(first_byte_s):
                return await self._request(member, request, connect_s, sockets)
        except (aiohttp.ClientError, OSError) as error:  # TimeoutError is an OSError
            # With fewer requests open than there may be connections, it was not for one of these that it waited.
            is_queued = not sockets and self._open_requests >= self._max_connections
            raise _translated(error, member, is_queued=is_queued) from error
        finally:
            _sockets_opened.reset(token)

    @property
    def _open_requests(self) -> int:
        return self._pooled.used if self._pooled is not None else 0

    async def aclose(self) -> None:
        for connections in (self._pooled, self._fresh, *self._retired):
            if connections is not None:
                await connections.aclose()
        self._pooled = self._fresh = None
        self._retired.clear()

    async def _request(
        self, member: Member, request: Outgoing, connect_s: float, sockets: list[AddrInfoType]
    ) -> VllmReply:
        try:
            return await self._connections().request(member, request, connect_s)
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError) as error:
            if sockets or isinstance(error, aiohttp.ClientConnectorError):
                raise
        # The server closed an idle connection while this request was on its way: nothing is wrong with either.
        # Another idle connection may be as stale, so this one is made for the purpose.
        if self._fresh is None:
            self._fresh = self._new_connections(is_kept=False)
        return await self._fresh.request(member, request, connect_s)

    def _connections(self) -> _Connections:
        """Those for new requests. Old ones end with the last request on them."""
        now_s = time.monotonic()
        if self._pooled is not None and now_s - self._pooled.made_s > self._max_age_s:
            self._retired = {connections for connections in self._retired if not connections.is_closed}
            self._retired.add(self._pooled)
            self._pooled.retire()
            self._pooled = None
        if self._pooled is None:
            self._pooled = self._new_connections(is_kept=True)
        return self._pooled

    def _new_connections(self, *, is_kept: bool) -> _Connections:
        connector = aiohttp.TCPConnector(
            limit=0,
            limit_per_host=self._max_connections,
            force_close=not is_kept,
            socket_factory=self._open_socket,
            keepalive_timeout=_KEEP_ALIVE_S if is_kept else None,
            ttl_dns_cache=self._dns_ttl_s,
        )
        return _Connections(connector)

    def _open_socket(self, address: AddrInfoType) -> socket.socket:
        family, kind, protocol, _, place = address
        if not self._addresses.permits(str(place[0])):
            raise DeniedAddress("the address is on the deny list")
        _sockets_opened.get().append(address)
        return socket.socket(family, kind, protocol)


class _Connections:
    """Connections made from one moment on, and how many answers are being read from them."""

    def __init__(self, connector: aiohttp.TCPConnector) -> None:
        self.made_s = time.monotonic()
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=_AUTOMATIC_HEADERS,
        )
        self.used = 0
        self._is_retired = False
        self._closing: asyncio.Task[None] | None = None

    @property
    def is_closed(self) -> bool:
        return self._closing is not None and self._closing.done()

    async def request(self, member: Member, request: Outgoing, connect_s: float) -> VllmReply:
        headers = dict(request.headers)
        if member.api_key:
            headers["authorization"] = f"Bearer {member.api_key}"
        self.used += 1
        try:
            response = await self._session.request(
                request.method,
                member.base_url.rstrip("/") + request.path,
                data=_payload(request.body),
                headers=headers,
                allow_redirects=False,
                timeout=aiohttp.ClientTimeout(total=None, connect=connect_s),
            )
        except BaseException:
            self.give_back()
            raise
        return VllmReply(response, member, self)

    def give_back(self) -> None:
        self.used -= 1
        self._close_if_idle()

    def retire(self) -> None:
        self._is_retired = True
        self._close_if_idle()

    async def aclose(self) -> None:
        if self._closing is not None:
            await self._closing
        await self._session.close()

    def _close_if_idle(self) -> None:
        if self._is_retired and not self.used and self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._session.close())


class VllmReply:
    """An aiohttp response whose errors speak of members."""

    def __init__(self, response: aiohttp.ClientResponse, member: Member, connections: _Connections) -> None:
        self._response = response
        self._member = member
        self._connections: _Connections | None = connections
        self.status = response.status
        self.headers: Mapping[str, str] = response.headers

    async def read(self) -> bytes:
        try:
            return await self._response.content.readany()
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamBroken(f"{self._member.name} cut its answer short", reason="cut") from error

    def close(self) -> None:
        self._response.close()
        if self._connections is not None:
            self._connections.give_back()
            self._connections = None


def _payload(body: bytes | None) -> bytes | io.BytesIO | None:
    """A large body would be handed to the socket in one go, while the loop stands still; a file is sent in pieces."""
    return body if body is None or len(body) <= _ONE_GO_BYTES else io.BytesIO(body)


def _translated(error: Exception, member: Member, *, is_queued: bool) -> UpstreamFailed:
    name = member.name
    match error:
        case aiohttp.ConnectionTimeoutError() if is_queued:
            return UpstreamTimeout(f"all connections to {name} were busy for too long", reason="busy")
        case aiohttp.ConnectionTimeoutError():
            return UpstreamTimeout(f"{name} could not be connected to in time", reason="connect")
        case TimeoutError():
            return UpstreamTimeout(f"{name} did not begin its answer in time", reason="timeout")
        case aiohttp.ClientConnectorError() if isinstance(error.os_error, DeniedAddress):
            return UpstreamBroken(f"{name} has an address that may not be connected to", reason="denied")
        case aiohttp.ClientConnectorError():
            return UpstreamBroken(f"{name} could not be connected to", reason="connect")
        case aiohttp.ServerDisconnectedError() | OSError():
            return UpstreamBroken(f"{name} closed the connection without an answer", reason="reset")
        case _:
            return UpstreamBroken(f"{name} did not answer in HTTP", reason="not-http")
