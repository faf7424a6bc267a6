"""Owns the connection to a store: connects, batches, notices that the store is down and when it is back.

One client per store role. While the store is down every command fails at once, so that no request waits for
it; one background task tries to get it back.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from .store_address import Argument, StoreAddress, pack
from .store_protocol import Connection, failed

_CONNECT_TIMEOUT_S = 1.0
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0
_PING = pack(("PING",))


@dataclass(frozen=True, slots=True)
class StoreState:
    """For readiness and metrics. `since_s` is a `time.monotonic()` moment, `reason` says why it is down."""

    is_up: bool
    since_s: float
    reason: str | None
    timeouts: int
    failures: int


class StoreClient:
    """Open it with `StoreClient.open(url)`. All calls belong to the loop it was opened on.

    Commands of one loop tick leave in one write. Futures fail with `ConnectionError` (the store is down, or
    went down), `TimeoutError` (not answered by the deadline, a moment on `time.monotonic()`, by default
    `deadline_s` from now; `math.inf` waits for as long as the connection lives) or `redis.ResponseError`.
    A command that failed may have been carried out. A cancelled future does no harm to others.

    A connection on which a command waits and nothing was heard for `silence_s` is given up; a client for
    blocking reads needs more than its longest block.
    """

    def __init__(
        self, address: StoreAddress, *, deadline_s: float, silence_s: float, max_pending: int, name: str
    ) -> None:
        self._address = address
        self._name = name
        self._deadline_s = deadline_s
        self._silence_s = silence_s
        self._max_pending = max_pending
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._trouble = asyncio.Event()
        self._tried = asyncio.Event()
        self._scripts: dict[str, str] = {}
        self._is_up = False
        self._since_s = time.monotonic()
        self._reason: str | None = "not connected yet"
        self._timeouts = 0  # of connections that are gone
        self._failures = 0

    def __repr__(self) -> str:
        state = "up" if self._is_up else f"down ({self._reason})"
        return f"<StoreClient {self._name} {state} {self._connection}>"

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        deadline_s: float = 0.050,
        silence_s: float = 1.0,
        max_pending: int = 10_000,
        name: str = "store",
    ) -> AsyncIterator[StoreClient]:
        """A client that has tried to connect once. A store that is absent is no error: it is just down.

        `name` is what messages call the store. At the end everything that still waits fails.
        """
        client = cls(
            StoreAddress.parse(url),
            deadline_s=deadline_s,
            silence_s=silence_s,
            max_pending=max_pending,
            name=name,
        )
        keeper = asyncio.create_task(client._keep_connected(), name=f"keep {name} connected")
        keeper.add_done_callback(lambda _: client._tried.set())
        try:
            await client._tried.wait()
            yield client
        finally:
            keeper.cancel()
            await asyncio.wait([keeper])
            client._go_down("closed")
            if client._connection is not None:
                client._connection.abort("The store client was closed.")

    # --- commands

    def execute(self, *command: Argument, deadline: float | None = None) -> asyncio.Future[Any]:
        now = time.monotonic()
        if not self._is_up or self._connection is None:
            return self._refused()
        return self._connection.send(
            pack(command),
            deadline=now + self._deadline_s if deadline is None else deadline,
            now=now,
        )

    def script(
        self,
        source: str,
        *,
        keys: Sequence[Argument],
        args: Sequence[Argument],
        deadline: float | None = None,
    ) -> Awaitable[Any]:
        """Run a Lua script by its hash; the source is sent only when the server does not know it.

        `source` is one of the program's constants: its hash is remembered for good.
        """
        now = time.monotonic()
        if not self._is_up or self._connection is None:
            return self._refused()
        sha = self._scripts.get(source)
        if sha is None:
            sha = self._scripts[source] = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return self._connection.send(
            pack(("EVALSHA", sha, len(keys), *keys, *args)),
            deadline=now + self._deadline_s if deadline is None else deadline,
            now=now,
            on_no_script=lambda: pack(("EVAL", source, len(keys), *keys, *args)),
        )

    # --- the breaker

    @property
    def is_up(self) -> bool:
        return self._is_up

    @property
    def state(self) -> StoreState:
        late = self._connection.late_total if self._connection is not None else 0
        return StoreState(
            is_up=self._is_up,
            since_s=self._since_s,
            reason=self._reason,
            timeouts=self._timeouts + late,
            failures=self._failures,
        )

    def _refused(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        return failed(future, ConnectionError(f"The {self._name} is down."))

    def _go_up(self) -> None:
        self._is_up, self._reason, self._since_s = True, None, time.monotonic()

    def _go_down(self, reason: str) -> None:
        if self._is_up:
            self._is_up, self._since_s = False, time.monotonic()
        self._reason = reason
        self._trouble.set()

    async def _keep_connected(self) -> None:
        """Runs until cancelled: connect, watch, and again."""
        attempt = 0
        while True:
            try:
                connection = await self._connect()
            except (OSError, RedisError) as error:
                self._failures += 1
                self._go_down(f"{type(error).__name__}: {error}")
                self._tried.set()
            else:
                self._connection = connection
                self._go_up()
                self._tried.set()
                connected_s = time.monotonic()
                await self._watch(connection)
                self._timeouts += connection.late_total
                self._connection = None
                # A store that takes connections only to drop them is tried no faster than an absent one.
                if time.monotonic() - connected_s > _LAST_PAUSE_S:
                    attempt = 0
            attempt += 1
            await asyncio.sleep(_pause_s(attempt))

    async def _connect(self) -> Connection:
        """A greeted connection: entered, in the right database, and the store answers."""
        connection = Connection(
            on_trouble=self._go_down,
            # A little under the default deadline, as timers and clocks round.
            patience_s=0.9 * self._deadline_s,
            silence_s=self._silence_s,
            max_pending=self._max_pending,
        )
        try:
            async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                await self._dial(connection)
                now = time.monotonic()
                greeting = [
                    connection.send(command, deadline=now + _CONNECT_TIMEOUT_S, now=now)
                    for command in self._address.greeting()
                ]
                for reply in greeting:
                    await reply
        except BaseException:
            connection.abort("The store could not be entered.")
            raise
        if connection.is_lost:
            raise ConnectionError("The store closed the connection.")
        return connection

    async def _dial(self, connection: Connection) -> None:
        address = self._address
        if address.path is not None:
            await self._loop.create_unix_connection(lambda: connection, address.path)
        else:
            tls = ssl.create_default_context() if address.is_tls else None
            await self._loop.create_connection(lambda: connection, address.host, address.port, ssl=tls)

    async def _watch(self, connection: Connection) -> None:
        """Returns when the connection is lost. While the store is late or cannot serve, it is pinged."""
        while not connection.is_lost:
            self._trouble.clear()
            await self._trouble.wait()
            attempt = 0
            while not connection.is_lost and not self._is_up:
                now = time.monotonic()
                try:
                    await connection.send(_PING, deadline=now + self._deadline_s, now=now)
                except RedisError:  # it wants another greeting, say a password
                    connection.abort("The store refuses a PING.")
                except OSError:
                    attempt += 1
                    await asyncio.sleep(_pause_s(attempt))
                else:
                    self._go_up()


def _pause_s(attempt: int) -> float:
    """Doubling pauses; the jitter keeps workers from knocking in step."""
    return min(_LAST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** min(attempt - 1, 10)) * random.uniform(0.5, 1.0)  # noqa: S311
