"""Owns when keys were last used, and writes it down in batches, away from the requests."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Protocol

from ..errors import KeysUnavailable

_AT_MOST_EVERY_S = 60.0
_CAPACITY = 10_000


class Uses(Protocol):
    """The part of a `Directory` that keeps them."""

    async def note_use(self, used_at_s: Mapping[str, float]) -> None: ...


class LastUsed:
    """Open it with `LastUsed.open(directory)`; `note` is for `Authenticator(on_use=…)`.

    Each key is written at most once a minute. While the store is down the moments are kept, of at most ten
    thousand keys. `now` is a monotonic clock, `wall` the one that is written down.
    """

    def __init__(
        self,
        directory: Uses,
        *,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._directory = directory
        self._now = now
        self._wall = wall
        self._next_s: dict[str, float] = {}
        self._pending: dict[str, float] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, directory: Uses, *, every_s: float = 5.0) -> AsyncIterator[LastUsed]:
        """Writes every few seconds, and once more at the end."""
        used = cls(directory)
        writing = asyncio.create_task(used._write_on(every_s), name="write when keys were used")
        try:
            yield used
        finally:
            writing.cancel()
            await asyncio.wait([writing])
            await used.write()

    def note(self, key_id: str) -> None:
        """The key is used now. Costs nothing to speak of, and never fails."""
        now = self._now()
        if now < self._next_s.get(key_id, 0.0):
            return
        if len(self._next_s) >= _CAPACITY:
            self._next_s.clear()  # so that some keys are written sooner than need be
        self._next_s[key_id] = now + _AT_MOST_EVERY_S
        if len(self._pending) < _CAPACITY or key_id in self._pending:
            self._pending[key_id] = self._wall()

    async def write(self) -> None:
        """What is pending. What the store does not take is pending still."""
        batch, self._pending = self._pending, {}
        if not batch:
            return
        try:
            await self._directory.note_use(batch)
        except KeysUnavailable:
            self._pending = batch | self._pending

    async def _write_on(self, every_s: float) -> None:
        while True:
            await asyncio.sleep(every_s)
            await self.write()
