"""HTTP as clients that are no libraries speak it: raw bytes on a socket, read to the end or as slowly as it takes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
from openai import AsyncOpenAI

from tests.running import RunningGateway, events


async def streamed(
    gateway: RunningGateway, content: Any = "q", **fields: Any
) -> tuple[httpx.Response, list[Any]]:
    """A streamed chat, read to its end: the reply and what its frames say."""
    async with gateway.chat_stream(content, **fields) as reply:
        body = (await reply.aread()).decode()
    return reply, events(body)


def chat_body(content: Any = "q", **fields: Any) -> bytes:
    body = {"model": "m1", "temperature": 0, "messages": [{"role": "user", "content": content}]}
    return json.dumps(body | fields).encode()


def post_head(gateway: RunningGateway, *, version: str = "1.1", **headers: str) -> bytes:
    """Request line and headers of a chat, the blank line included; keywords become header names."""
    named = {"host": "gateway", "authorization": f"Bearer {gateway.key}"}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"POST /v1/chat/completions HTTP/{version}", *(f"{n}: {v}" for n, v in named.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


@asynccontextmanager
async def connection(
    gateway: RunningGateway, *, receive_buffer: int | None = None
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A socket to the gateway; `receive_buffer` bytes bound what a client that does not read still takes."""
    host, port = gateway.base_url.removeprefix("http://").split(":")
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, (host, int(port)))
    reader, writer = await asyncio.open_connection(sock=sock, limit=receive_buffer or 65536)
    try:
        yield reader, writer
    finally:
        writer.close()


async def spoken(gateway: RunningGateway, *parts: bytes) -> tuple[int, Mapping[str, str], bytes]:
    """Send these bytes and read until the gateway closes: status, headers, and the body as it stands on the wire."""
    async with connection(gateway) as (reader, writer):
        for part in parts:
            writer.write(part)
        async with asyncio.timeout(30):
            reply = await reader.read(-1)
    head, _, body = reply.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(status.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}, body


@asynccontextmanager
async def official_sdk(gateway: RunningGateway, **settings: Any) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        api_key=gateway.key, base_url=f"{gateway.base_url}/v1", **{"max_retries": 0, "timeout": 30} | settings
    ) as client:
        yield client
