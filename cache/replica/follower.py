"""Follows the change streams of all shards, so that this process's indexes hold what any process stored.

It reads from the beginning at start, which is also how a restarted process gets its indexes back. A store
that is down is waited for. What is missed or comes twice does no harm: an index proposes, the store decides.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from redis.exceptions import ResponseError

from .. import changes
from ..identity import SHARDS, changes_key, fingerprint_tag, is_of_fingerprint
from ..index import Spaces
from ..interfaces import Store

_BLOCK_S = 2.0
_GRACE_S = 3.0
_AT_ONCE = 64  # of each stream: what is applied between two turns of the loop
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.05, 1.0
_BEGINNING = b"0-0"


class Follower:
    """`store` is a connection of its own: its commands block. The owner runs `run` and cancels it."""

    def __init__(
        self,
        store: Store,
        spaces: Spaces,
        *,
        secret: bytes,
        fingerprint: str,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.caught_up = asyncio.Event()  # set once everything that was there at the start has been read
        self._store = store
        self._spaces = spaces
        self._tag = fingerprint_tag(secret, fingerprint)
        self._now = now
        self._wall = wall
        self._cursors = {changes_key(shard).encode(): _BEGINNING for shard in range(SHARDS)}

    def __repr__(self) -> str:
        state = "caught up" if self.caught_up.is_set() else "reading"
        return f"Follower({state}, {self._spaces!r})"

    async def run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                await self._start_over_where_reset()
                while True:
                    await self._read()
                    pause_s = _FIRST_PAUSE_S
            except (OSError, ResponseError):
                # Down, or not ready: the store client knows and says why; here it only means to wait.
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, _LAST_PAUSE_S)

    async def _read(self) -> None:
        is_new = not self.caught_up.is_set()
        block = () if is_new else ("BLOCK", int(_BLOCK_S * 1000))
        reply = await self._store.execute(
            "XREAD",
            "COUNT",
            _AT_ONCE,
            *block,
            "STREAMS",
            *self._cursors,
            *self._cursors.values(),
            deadline=self._now() + _BLOCK_S + _GRACE_S,
        )
        for stream, items in reply or ():
            for item_id, fields in items:
                self._apply(fields)
                self._cursors[stream] = item_id
        if is_new and not reply:
            self.caught_up.set()

    def _apply(self, fields: list[Any]) -> None:
        match changes.decode(fields[1]):
            case changes.Added(space, entry_id, vector, expires_at_s):
                if is_of_fingerprint(space, self._tag) and expires_at_s > self._wall():
                    self._spaces.add(space, entry_id, vector, expires_at_s=expires_at_s)
            case changes.Removed(tag, entry_id):
                self._spaces.remove_from_namespace(tag, entry_id)
            case changes.Flushed(tag):
                self._spaces.drop_namespace(tag)

    async def _start_over_where_reset(self) -> None:
        """A stream whose last item lies before our place is another: an older copy, or a clock set back."""
        deadline = self._now() + _GRACE_S
        newest = [
            self._store.execute("XREVRANGE", stream, "+", "-", "COUNT", 1, deadline=deadline)
            for stream in self._cursors
        ]
        for stream, pending in zip(list(self._cursors), newest, strict=True):
            items = await pending
            last = items[0][0] if items else _BEGINNING
            if _place(last) < _place(self._cursors[stream]):
                self._cursors[stream] = _BEGINNING


def _place(item_id: bytes) -> tuple[int, int]:
    milliseconds, _, number = item_id.partition(b"-")
    return int(milliseconds), int(number)
