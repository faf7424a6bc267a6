"""The topology of a store that is a cluster: one node for each server that holds slots, each with its own breaker.

The layout is read from any server that answers, and again when a reply or a lost server makes it doubtful, until
all slots are served.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

from .address import Argument, Command, Endpoint, StoreAddress, pack
from .dial import Patience
from .layout import Layout, read_layout
from .node import Node, pause_s
from .protocol import failed
from .replies import Redirected
from .sending import Sending
from .slots import SLOTS, key_of, parts_of, slot_of
from .split import read_keys, read_streams
from .topology import StoreState

_SETTLE_S = 0.5  # the least between two readings while all is well: a resharding sends many elsewhere


class Cluster:
    def __init__(self, address: StoreAddress, *, patience: Patience, name: str) -> None:
        self._address = address
        self._patience = patience
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._nodes: dict[Endpoint, Node] = {}
        self._leaving: set[Node] = set()  # no longer of the layout, not yet closed
        self._slots: list[Node | None] = [None] * SLOTS
        self._replicas: frozenset[Endpoint] = frozenset()
        self._doubt = asyncio.Event()
        self._doubt.set()
        self._trouble: str | None = "not connected yet"  # of the whole; nodes have their own
        self._splits: set[asyncio.Task[Any]] = set()
        self._past_timeouts = self._past_failures = 0  # of nodes that are gone
        self.tried = asyncio.Event()
        self.is_up = False
        self._since_s = time.monotonic()

    def __repr__(self) -> str:
        return f"<Cluster {'up' if self.is_up else f'down ({self._reason()})'} {list(self._nodes.values())}>"

    @property
    def state(self) -> StoreState:
        nodes = self._nodes.values()
        ids = sorted(node.server_id for node in nodes if node.server_id is not None)
        return StoreState(
            is_up=self.is_up,
            since_s=self._since_s,
            reason=self._reason(),
            timeouts=self._past_timeouts + sum(node.timeouts for node in nodes),
            failures=self._past_failures + sum(node.failures for node in nodes),
            server_id="+".join(ids) or None,
        )

    # --- commands

    def send(
        self,
        command: Command,
        *,
        deadline: float,
        now: float,
        source: str | None = None,
        like_key: Argument | None = None,
    ) -> asyncio.Future[Any]:
        key = key_of(command) if like_key is None else like_key
        if key is None:
            return self._send_keyless(command, deadline=deadline, now=now)
        if like_key is None and (parts := parts_of(command)) is not None:
            split = read_keys if command[0] == "MGET" else read_streams
            return self._own(split(command, parts, send=self.send, deadline=deadline, now=now))
        sending = Sending(self, command, source=source, deadline=deadline)
        return sending.start(self._slots[slot_of(key)], self._loop.create_future(), now=now)

    def send_to_all(self, command: Command, *, deadline: float, now: float) -> Sequence[asyncio.Future[Any]]:
        if not self._nodes:
            return [self._refused()]
        return [node.send(pack(command), deadline=deadline, now=now) for node in self._nodes.values()]

    def _send_keyless(self, command: Command, *, deadline: float, now: float) -> asyncio.Future[Any]:
        if not self.is_up:
            return self._refused()
        return next(iter(self._nodes.values())).send(pack(command), deadline=deadline, now=now)

    def _refused(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        return failed(future, ConnectionError(f"The {self._name} is down, or a part of it."))

    def _own(self, split: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(split)
        self._splits.add(task)
        task.add_done_callback(self._splits.discard)
        # A caller who left is no reason to log an error.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    # --- what redirected commands ask

    def moved(self, redirect: Redirected, *, here: Endpoint) -> Node | None:
        """The node a reply sends us to, and what follows in this slot too. None: one we do not know yet."""
        node = self._nodes.get(redirect.endpoint(here=here))
        if not redirect.is_ask:
            self._slots[redirect.slot] = node
            self.doubt()
        return node

    def doubt(self) -> None:
        """The layout may have changed."""
        self._doubt.set()

    # --- the layout

    async def keep_laid_out(self) -> None:
        """Runs until cancelled."""
        attempt = 0
        while True:
            await self._doubt.wait()
            self._doubt.clear()
            try:
                layout = await read_layout(self._candidates(), self._address.login)
            except ConnectionError as error:
                self._trouble = str(error)
            else:
                await self._lay_out(layout)
            self._note()
            self.tried.set()
            attempt = 0 if self.is_up else attempt + 1
            await asyncio.sleep(pause_s(attempt) if attempt else _SETTLE_S)
            if not self.is_up:
                self.doubt()

    def _candidates(self) -> list[Endpoint]:
        """Whom to ask for the layout, those that are up first."""
        nodes = random.sample(list(self._nodes.items()), len(self._nodes))
        up = [endpoint for endpoint, node in nodes if node.is_up]
        return list(dict.fromkeys((*up, *self._replicas, *self._address.endpoints, *self._nodes)))

    async def _lay_out(self, layout: Layout) -> None:
        masters = dict.fromkeys(endpoint for endpoint in layout.masters if endpoint is not None)
        new = [self._make_node(endpoint) for endpoint in masters if endpoint not in self._nodes]
        gone = [endpoint for endpoint in self._nodes if endpoint not in masters]
        self._leaving.update(self._nodes.pop(endpoint) for endpoint in gone)
        self._slots = [None if endpoint is None else self._nodes[endpoint] for endpoint in layout.masters]
        self._replicas = layout.replicas
        self._trouble = layout.trouble
        for node in list(self._leaving):
            await node.aclose()
            self._leaving.remove(node)
            self._past_timeouts += node.timeouts
            self._past_failures += node.failures
        for node in new:
            await node.tried.wait()

    def _make_node(self, endpoint: Endpoint) -> Node:
        async def locate() -> Endpoint:
            return endpoint

        node = Node(
            locate, self._address.login, patience=self._patience, name=self._name, on_change=self._note
        )
        self._nodes[endpoint] = node
        node.start()
        return node

    def _note(self) -> None:
        """Whether the whole is up, now that something has changed."""
        is_up = self._reason() is None
        if is_up != self.is_up:
            self.is_up, self._since_s = is_up, time.monotonic()
        if not is_up:
            self.doubt()

    def _reason(self) -> str | None:
        if self._trouble is not None:
            return self._trouble
        down = [f"{node.endpoint}: {node.reason}" for node in self._nodes.values() if not node.is_up]
        return "; ".join(down) or None

    async def aclose(self) -> None:
        """Everything that still waits fails."""
        self._trouble = "closed"
        for node in (*self._nodes.values(), *self._leaving):
            await node.aclose()
        if self._splits:  # their parts have failed, so they end
            await asyncio.wait(self._splits)


@asynccontextmanager
async def open_cluster(address: StoreAddress, *, patience: Patience, name: str) -> AsyncIterator[Cluster]:
    cluster = Cluster(address, patience=patience, name=name)
    keeping = asyncio.create_task(cluster.keep_laid_out(), name=f"keep the layout of the {name}")
    keeping.add_done_callback(lambda _: cluster.tried.set())
    try:
        await cluster.tried.wait()
        yield cluster
    finally:
        keeping.cancel()
        await asyncio.wait([keeping])
        await cluster.aclose()
