"""Owns a store's client: what a command may cost in time, and that scripts travel by their hash.

One client per store role. Which server a command belongs to is the topology's decision (`store/server.py`,
`store/cluster.py`), whether that server is up is its node's (`store/node.py`).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from .address import Argument, Kind, StoreAddress
from .cluster import open_cluster
from .dial import Patience
from .server import open_master, open_server
from .topology import StoreState, Topology

__all__ = ["StoreClient", "StoreState"]

_Opener = Callable[..., AbstractAsyncContextManager[Topology]]
_OPENERS: dict[Kind, _Opener] = {"server": open_server, "sentinel": open_master, "cluster": open_cluster}


class StoreClient:
    """Open it with `StoreClient.open(url)`. All calls belong to the loop it was opened on.

    Commands of one loop tick leave in one write, on a cluster in one for each server. Futures fail with
    `ConnectionError` (the store, or the server that holds the key, is down, or went down), `TimeoutError` (not
    answered by the deadline, a moment on `time.monotonic()`, by default `deadline_s` from now; `math.inf` waits
    for as long as the connection lives) or `redis.ResponseError`. A command that failed may have been carried
    out. A cancelled future does no harm to others.

    A connection on which a command waits and nothing was heard for `silence_s` is given up; a client for
    blocking reads needs more than its longest block.

    On a cluster a command belongs to the server of its first key; MGET and XREAD may have keys of several. A
    command without a key is about the whole store: it fails unless all servers are up, and then goes to one.
    """

    def __init__(self, topology: Topology, *, deadline_s: float, name: str) -> None:
        self._topology = topology
        self._deadline_s = deadline_s
        self._name = name
        self._scripts: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"<StoreClient {self._name} {self._topology!r}>"

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

        `StoreAddress.parse` says what a URL may be. `name` is what messages call the store. At the end
        everything that still waits fails.
        """
        address = StoreAddress.parse(url)
        patience = Patience(deadline_s=deadline_s, silence_s=silence_s, max_pending=max_pending)
        async with _OPENERS[address.kind](address, patience=patience, name=name) as topology:
            yield cls(topology, deadline_s=deadline_s, name=name)

    @property
    def is_up(self) -> bool:
        """Whether every server that holds a part of the store is up."""
        return self._topology.is_up

    @property
    def state(self) -> StoreState:
        return self._topology.state

    def execute(
        self, *command: Argument, deadline: float | None = None, like_key: Argument | None = None
    ) -> asyncio.Future[Any]:
        """`like_key` sends a command that names no key (SCAN) to the server that holds this one."""
        now = time.monotonic()
        return self._topology.send(
            command,
            deadline=now + self._deadline_s if deadline is None else deadline,
            now=now,
            like_key=like_key,
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
        sha = self._scripts.get(source)
        if sha is None:
            sha = self._scripts[source] = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
        return self._topology.send(
            ("EVALSHA", sha, len(keys), *keys, *args),
            deadline=now + self._deadline_s if deadline is None else deadline,
            now=now,
            source=source,
        )

    async def execute_everywhere(self, *command: Argument, deadline: float | None = None) -> list[Any]:
        """Every server's reply to a command without a key; raises what any of them raises."""
        now = time.monotonic()
        return await asyncio.gather(
            *self._topology.send_to_all(
                command, deadline=now + self._deadline_s if deadline is None else deadline, now=now
            )
        )

    def wait_replicas(self, count: int, timeout_ms: int, *, like_key: Argument) -> asyncio.Future[int]:
        """How many replicas have confirmed what this client wrote to the server of `like_key`; it returns once
        `count` have, or after the timeout (in ms, less than `silence_s`; 0 would block for good).

        To be called as soon as the write's reply is there: it speaks of what this connection carried, and a
        connection made since carried nothing. Commands that follow on the connection wait with it.
        """
        now = time.monotonic()
        deadline = now + timeout_ms / 1000 + self._deadline_s
        return self._topology.send(("WAIT", count, timeout_ms), deadline=deadline, now=now, like_key=like_key)
