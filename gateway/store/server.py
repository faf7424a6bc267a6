"""The topology of a store that is one server at a time: a single one, or the master that sentinels tell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from redis.exceptions import NoScriptError

from .address import Argument, Command, Endpoint, StoreAddress, pack
from .dial import Patience
from .node import Node
from .sentinel import Sentinels
from .topology import StoreState


class OneServer:
    def __init__(self, node: Node) -> None:
        self._node = node

    def __repr__(self) -> str:
        return repr(self._node)

    @property
    def is_up(self) -> bool:
        return self._node.is_up

    @property
    def state(self) -> StoreState:
        node = self._node
        return StoreState(
            is_up=node.is_up,
            since_s=node.since_s,
            reason=node.reason,
            timeouts=node.timeouts,
            failures=node.failures,
            server_id=node.server_id,
        )

    def send(
        self,
        command: Command,
        *,
        deadline: float,
        now: float,
        source: str | None = None,
        like_key: Argument | None = None,
    ) -> asyncio.Future[Any]:
        if source is None:
            return self._node.send(pack(command), deadline=deadline, now=now)

        def send_source(error: Exception, future: asyncio.Future[Any]) -> bool:
            if not isinstance(error, NoScriptError):
                return False
            whole = pack(("EVAL", source, *command[2:]))
            self._node.send(whole, deadline=deadline, now=time.monotonic(), future=future)
            return True

        return self._node.send(pack(command), deadline=deadline, now=now, rescue=send_source)

    def send_to_all(self, command: Command, *, deadline: float, now: float) -> Sequence[asyncio.Future[Any]]:
        return [self.send(command, deadline=deadline, now=now)]


@asynccontextmanager
async def open_server(address: StoreAddress, *, patience: Patience, name: str) -> AsyncIterator[OneServer]:
    async def locate() -> Endpoint:
        return address.endpoints[0]

    node = Node(locate, address.login, patience=patience, name=name, on_change=_nothing)
    async with _started(node):
        yield OneServer(node)


@asynccontextmanager
async def open_master(address: StoreAddress, *, patience: Patience, name: str) -> AsyncIterator[OneServer]:
    sentinels = Sentinels(address)
    node = Node(sentinels.master, address.login, patience=patience, name=name, on_change=_nothing)

    def follow(master: Endpoint) -> None:
        if node.endpoint != master:
            node.abandon(f"The sentinels name another master now: {master}")

    watching = asyncio.create_task(sentinels.watch(follow), name=f"watch the sentinels of the {name}")
    try:
        async with _started(node):
            yield OneServer(node)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        sentinels.close()


@asynccontextmanager
async def _started(node: Node) -> AsyncIterator[None]:
    """Running, and after its first try to connect."""
    node.start()
    try:
        await node.tried.wait()
        yield
    finally:
        await node.aclose()


def _nothing() -> None:
    """A single server tells nobody: who wants to know asks."""
