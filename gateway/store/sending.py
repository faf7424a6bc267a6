"""Owns one command's way through a cluster: it is sent on where a reply says that it belongs."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from redis.exceptions import NoScriptError

from .address import Command, Endpoint, pack
from .node import Node
from .protocol import failed
from .replies import Redirected

_MOST_REDIRECTS = 5
_ASKING = pack(("ASKING",))


class Layouts(Protocol):
    """What the command has to tell the cluster, and ask it."""

    def moved(self, redirect: Redirected, *, here: Endpoint) -> Node | None:
        """The node that the reply names; None if it is not known yet."""
        ...

    def doubt(self) -> None:
        """The layout may have changed."""
        ...


class Sending:
    """Its call is a `Rescue`. `source` is the script's, for EVALSHA."""

    __slots__ = ("_command", "_deadline", "_layouts", "_node", "_redirects", "_source")

    def __init__(self, layouts: Layouts, command: Command, *, source: str | None, deadline: float) -> None:
        self._layouts = layouts
        self._command = command
        self._source = source
        self._deadline = deadline
        self._redirects = 0

    def start(self, node: Node | None, future: asyncio.Future[Any], *, now: float) -> asyncio.Future[Any]:
        """To `node`, None being the server of a slot that has none."""
        if node is None:
            self._layouts.doubt()
            return failed(future, ConnectionError("No server of the cluster serves this key now."))
        self._node = node
        return node.send(pack(self._command), deadline=self._deadline, now=now, future=future, rescue=self)

    def __call__(self, error: Exception, future: asyncio.Future[Any]) -> bool:
        now = time.monotonic()
        if isinstance(error, NoScriptError) and self._source is not None:
            self._command, self._source = ("EVAL", self._source, *self._command[2:]), None
            self.start(self._node, future, now=now)
            return True
        if isinstance(error, Redirected) and self._redirects < _MOST_REDIRECTS:
            self._redirects += 1
            assert self._node.endpoint is not None, "it has answered"
            node = self._layouts.moved(error, here=self._node.endpoint)
            if node is not None and error.is_ask:
                node.send(_ASKING, deadline=self._deadline, now=now)
            self.start(node, future, now=now)
            return True
        if isinstance(error, ConnectionError):
            self._layouts.doubt()
        return False
