"""Owns the deployment's copy of what is blocked: one stream of pairs in the durable store, which all workers follow.

A pair that was blocked a moment before a failover may be on no replica. Who blocked it keeps it for ten minutes, and
adds it once more whenever another server answers: a pair that is there twice counts once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from redis.exceptions import RedisError

from ..interfaces import Argument, Store
from .blocked import Blocked, decode, encode

Pair = tuple[int, int]

_STREAM = "eg:{evidence}:blocked"
_FIELD = "e"
_PAIRS_KEPT = 100_000
_AT_ONCE = 10_000
_COMMAND_S = 2.0
_REPLICA_MS = 500
_KEPT_S = 600.0
_MOST_KEPT = 1_000
_BEGINNING = b"0-0"

# ARGV: how many pairs are kept, then the new ones. Ends with how many replicas there are; -1: the store does not say.
_ADD = """
for at = 2, #ARGV do redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], '*', 'e', ARGV[at]) end
local info = redis.pcall('INFO', 'replication')
return type(info) == 'string' and tonumber(string.match(info, 'connected_slaves:(%d+)')) or -1
"""


class BlockedPairs:
    """`known` is what this worker goes by. `server_id` names the server that answers now, None while none does."""

    def __init__(
        self,
        store: Store,
        *,
        server_id: Callable[[], str | None] = lambda: None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = Blocked()
        self._store = store
        self._server_id = server_id
        self._now = now
        self._server: str | None = None
        self._read_to = _BEGINNING
        self._recent: deque[tuple[float, Pair]] = deque(maxlen=_MOST_KEPT)

    async def add(self, *pairs: Pair) -> bool:
        """For good, here at once and on every worker within a tick. False: the store has replicas, and none of them
        has it yet. Raises OSError if the store does not take it."""
        replicas = await self._write(*pairs)
        for pair in pairs:
            self.known.add(*pair)
            self._recent.append((self._now(), pair))
        return await self._is_replicated(replicas)

    async def follow(self) -> None:
        """Read on to the end of the stream. Raises OSError."""
        present = self._server_id()
        if present is not None and present != self._server:
            await self._begin_anew()
            self._server = present
        while await self._read():
            pass

    async def _begin_anew(self) -> None:
        """Another server: its stream may lack what the last one had, and be numbered by another clock."""
        oldest_s = self._now() - _KEPT_S
        recent = [pair for blocked_s, pair in self._recent if blocked_s >= oldest_s]
        if recent and self._server is not None:
            await self._write(*recent)
        self._read_to = _BEGINNING

    async def _read(self) -> bool:
        """Whether there may be more."""
        items = await self._send("XRANGE", _STREAM, b"(" + self._read_to, "+", "COUNT", _AT_ONCE)
        for item_id, fields in items:
            pair = decode(fields[1])
            if pair is not None:
                self.known.add(*pair)
            self._read_to = item_id
        return len(items) == _AT_ONCE

    async def _write(self, *pairs: Pair) -> int:
        replicas: int = await self._store.script(
            _ADD,
            keys=[_STREAM],
            args=[_PAIRS_KEPT, *(encode(*pair) for pair in pairs)],
            deadline=self._now() + _COMMAND_S,
        )
        return replicas

    async def _is_replicated(self, replicas: int) -> bool:
        if replicas == 0:
            return True
        try:
            return await self._store.wait_replicas(1, _REPLICA_MS, like_key=_STREAM) >= 1
        except (OSError, RedisError):  # it is blocked; that it is safe is what nobody can say
            return False

    def _send(self, *command: Argument) -> asyncio.Future[Any]:
        return self._store.execute(*command, deadline=self._now() + _COMMAND_S)
