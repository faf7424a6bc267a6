"""Decides which server is the master of a store that sentinels watch over.

The sentinels are asked at every attempt to connect, and twice a second while there is a connection: a master that
hangs, or is cut off from the others, keeps its connections. Asking needs no message to be heard at the right moment,
as waiting for `+switch-master` would.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from .address import Endpoint, StoreAddress, pack
from .dial import Patience, enter
from .protocol import Connection

_ASK_TIMEOUT_S = 0.5
_ASK_EVERY_S = 0.5


class Sentinels:
    """Those of one address. They are asked in turn, beginning with the one that answered last."""

    def __init__(self, address: StoreAddress) -> None:
        assert address.master_name is not None
        self._master_name = address.master_name
        self._login = address.sentinel_login
        # Not all clients of a deployment should ask the same one.
        self._endpoints = random.sample(address.endpoints, len(address.endpoints))
        self._connection: Connection | None = None
        self._asking = asyncio.Lock()

    async def master(self) -> Endpoint:
        """Where the master is. Raises ConnectionError if no sentinel knows."""
        async with self._asking:
            return await self._first_answer()

    async def watch(self, on_answer: Callable[[Endpoint], None]) -> None:
        """Tell again and again where the master is, until cancelled."""
        while True:
            await asyncio.sleep(_ASK_EVERY_S)
            try:
                on_answer(await self.master())
            except ConnectionError:
                continue  # nobody to ask is no reason to leave a master that serves

    def close(self) -> None:
        if self._connection is not None:
            self._connection.abort("The sentinel is not needed any more.")
            self._connection = None

    async def _first_answer(self) -> Endpoint:
        complaints = []
        for endpoint in list(self._endpoints):
            try:
                async with asyncio.timeout(_ASK_TIMEOUT_S):
                    return await self._ask(endpoint)
            except (OSError, RedisError) as error:
                complaints.append(f"{endpoint}: {type(error).__name__}: {error}")
                self.close()
                self._endpoints.append(self._endpoints.pop(0))
        raise ConnectionError(f"no sentinel tells the master {self._master_name!r} ({'; '.join(complaints)})")

    async def _ask(self, endpoint: Endpoint) -> Endpoint:
        if self._connection is None or self._connection.is_lost:
            patience = Patience(_ASK_TIMEOUT_S, silence_s=2 * _ASK_TIMEOUT_S, max_pending=100)
            self._connection, _ = await enter(endpoint, self._login, patience=patience, on_trouble=_ignored)
        now = time.monotonic()
        answer: list[Any] | None = await self._connection.send(
            pack(("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self._master_name)),
            deadline=now + _ASK_TIMEOUT_S,
            now=now,
        )
        if answer is None:
            raise ConnectionError("it does not know this name")
        host, port = answer
        return Endpoint(host.decode(), int(port))


def _ignored(_: str) -> None:
    """A sentinel in trouble is noticed when it is asked."""
