"""The clients compared, each set up as a gateway would: no proxy, no redirects, no unpacking, pool and time limits."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any, Protocol

import aiohttp
from pyreqwest.client import ClientBuilder
from pyreqwest.exceptions import PyreqwestError

PATH = "/v1/chat/completions"
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
