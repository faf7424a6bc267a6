"""Owns how a connection to one server is made: dialled, entered, and asked who it is."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from dataclasses import dataclass

from redis.exceptions import ResponseError

from .address import Endpoint, Login, pack
from .protocol import Connection

_CONNECT_TIMEOUT_S = 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a client waits for one server, and for how much.

    `deadline_s` is what a command gets that names no deadline. A connection on which a command waits and
    nothing was heard for `silence_s` is given up. More than `max_pending` unanswered commands are refused.
    """

    deadline_s: float
    silence_s: float
    max_pending: int


@dataclass(frozen=True, slots=True)
class Server:
    """What a server says of itself. Its `id` is another one each time it starts; some tell none."""

    id: str | None
    is_replica: bool


async def enter(
    endpoint: Endpoint, login: Login, *, patience: Patience, on_trouble: Callable[[str], None]
) -> tuple[Connection, Server]:
    """A connection to a server that answers. Raises OSError and RedisError."""
    connection = Connection(
        on_trouble=on_trouble,
        # A little under the default deadline, as timers and clocks round.
        patience_s=0.9 * patience.deadline_s,
        silence_s=patience.silence_s,
        max_pending=patience.max_pending,
    )
    try:
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            await _dial(connection, endpoint, is_tls=login.is_tls)
            server = await _greet(connection, login)
    except BaseException:
        connection.abort("The store could not be entered.")
        raise
    if connection.is_lost:
        raise ConnectionError("The store closed the connection.")
    return connection, server


async def _dial(connection: Connection, endpoint: Endpoint, *, is_tls: bool) -> None:
    loop = asyncio.get_running_loop()
    if endpoint.path is not None:
        await loop.create_unix_connection(lambda: connection, endpoint.path)
    else:
        tls = ssl.create_default_context() if is_tls else None
        await loop.create_connection(lambda: connection, endpoint.host, endpoint.port, ssl=tls)


async def _greet(connection: Connection, login: Login) -> Server:
    now = time.monotonic()
    # The last one is the proof that the server serves: one that loads its data answers INFO, but no PING.
    *entering, information, ping = [
        connection.send(pack(command), deadline=now + _CONNECT_TIMEOUT_S, now=now)
        for command in (*login.commands(), ("INFO", "server", "replication"), ("PING",))
    ]
    for reply in entering:
        await reply
    try:
        told: bytes = await information
    except ResponseError:  # some managed stores keep it to themselves
        told = b""
    await ping
    facts = dict(line.split(b":", 1) for line in told.split(b"\r\n") if b":" in line)
    return Server(facts.get(b"run_id", b"").decode() or None, facts.get(b"role") == b"slave")
