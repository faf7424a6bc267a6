"""Owns the way to one server of a store: connects, notices that it is down and when it is back.

While the server is down every command fails at once, so that no request waits for it; one background task tries
to get it back.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis.exceptions import RedisError

from .address import Endpoint, Login, pack
from .dial import Patience, enter
from .protocol import Connection, Rescue, failed

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0
_PING = pack(("PING",))


class Node:
    """`locate` tells where the server is now and is asked before each attempt. `on_change` is called whenever
    the server is found to be up or down. The owner calls `start` once and `aclose` at the end.

    `reason` says why the server is down, `since_s` is the `time.monotonic()` moment it went down or came up.
    """

    def __init__(
        self,
        locate: Callable[[], Awaitable[Endpoint]],
        login: Login,
        *,
        patience: Patience,
        name: str,
        on_change: Callable[[], None],
    ) -> None:
        self._locate = locate
        self._login = login
        self._patience = patience
        self._name = name
        self._on_change = on_change
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._trouble = asyncio.Event()
        self._timeouts = 0  # of connections that are gone
        self.tried = asyncio.Event()  # set once it has tried to connect
        self.is_up = False
        self.since_s = time.monotonic()
        self.reason: str | None = "not connected yet"
        self.failures = 0
        self.server_id: str | None = None  # of the server connected last
        self.endpoint: Endpoint | None = None

    def __repr__(self) -> str:
        state = "up" if self.is_up else f"down ({self.reason})"
        return f"<Node {self._name} {self.endpoint} {state} {self._connection}>"

    def start(self) -> None:
        self._keeper = asyncio.create_task(self._keep_connected(), name=f"keep {self._name} connected")
        self._keeper.add_done_callback(lambda _: self.tried.set())

    async def aclose(self) -> None:
        """Everything that still waits fails."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.wait([self._keeper])
        self._go_down("closed")
        self.abandon("The store client was closed.")

    def send(
        self,
        command: bytes,
        *,
        deadline: float,
        now: float,
        future: asyncio.Future[Any] | None = None,
        rescue: Rescue | None = None,
    ) -> asyncio.Future[Any]:
        """As `Connection.send`; fails at once while the server is down."""
        if not self.is_up or self._connection is None:
            return failed(future or self._loop.create_future(), ConnectionError(f"The {self._name} is down."))
        return self._connection.send(command, deadline=deadline, now=now, future=future, rescue=rescue)

    def abandon(self, reason: str) -> None:
        """Drop the connection, so that the server is looked for anew."""
        if self._connection is not None:
            self._connection.abort(reason)

    @property
    def timeouts(self) -> int:
        return self._timeouts + (self._connection.late_total if self._connection is not None else 0)

    # --- the breaker

    def _go_up(self) -> None:
        self.is_up, self.reason, self.since_s = True, None, time.monotonic()
        self._on_change()

    def _go_down(self, reason: str) -> None:
        if self.is_up:
            self.is_up, self.since_s = False, time.monotonic()
        self.reason = reason
        self._trouble.set()
        self._on_change()

    async def _keep_connected(self) -> None:
        """Runs until cancelled: connect, watch, and again."""
        attempt = 0
        while True:
            try:
                connection = await self._connect()
            except (OSError, RedisError) as error:
                self.failures += 1
                self._go_down(f"{type(error).__name__}: {error}")
                self.tried.set()
            else:
                self._connection = connection
                self._go_up()
                self.tried.set()
                connected_s = time.monotonic()
                await self._watch(connection)
                self._timeouts += connection.late_total
                self._connection = None
                # A server that takes connections only to drop them is tried no faster than an absent one.
                if time.monotonic() - connected_s > _LAST_PAUSE_S:
                    attempt = 0
            attempt += 1
            await asyncio.sleep(pause_s(attempt))

    async def _connect(self) -> Connection:
        self.endpoint = await self._locate()
        connection, server = await enter(
            self.endpoint, self._login, patience=self._patience, on_trouble=self._go_down
        )
        if server.is_replica:  # it would refuse to write, and what it knows may be old
            connection.abort("The server is a replica.")
            raise ConnectionError(f"{self.endpoint} is a replica, and not the master")
        self.server_id = server.id
        return connection

    async def _watch(self, connection: Connection) -> None:
        """Returns when the connection is lost. While the server is late or cannot serve, it is pinged."""
        while not connection.is_lost:
            self._trouble.clear()
            await self._trouble.wait()
            attempt = 0
            while not connection.is_lost and not self.is_up:
                now = time.monotonic()
                try:
                    await connection.send(_PING, deadline=now + self._patience.deadline_s, now=now)
                except RedisError:  # it wants another greeting, say a password
                    connection.abort("The store refuses a PING.")
                except OSError:
                    attempt += 1
                    await asyncio.sleep(pause_s(attempt))
                else:
                    self._go_up()


def pause_s(attempt: int) -> float:
    """Doubling pauses; the jitter keeps workers from knocking in step."""
    return min(_LAST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
