"""A look-up in the store whose command is on its way."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import Any, Protocol

from ..identity import is_for
from ..interfaces import Found
from ..model import Entry, Partition, Question
from .scan import answered

EPOCH_BYTES = 8


class Kept(Protocol):
    """What knows which records count."""

    def valid(
        self, record: bytes | None, epoch: bytes | None, partition: Partition, entry_id: int
    ) -> Entry | None: ...

    async def epoch(self, namespace: str, *, deadline: float) -> bytes: ...


class Finding:
    """A look-up whose command is on its way. Left unawaited it does no harm (a coroutine would warn)."""

    __slots__ = ("_deadline", "_entries", "_entry_id", "_question", "_reply")

    def __init__(
        self,
        entries: Kept,
        question: Question,
        entry_id: int,
        reply: asyncio.Future[Any],
        deadline: float,
    ) -> None:
        self._entries = entries
        self._question = question
        self._entry_id = entry_id
        self._reply = reply
        self._deadline = deadline

    def __await__(self) -> Generator[Any, None, Found]:
        return self._found().__await__()

    def cancel(self) -> None:
        self._reply.cancel()

    async def _found(self) -> Found:
        record, epoch, era, *alike = await answered(self._reply)
        partition = self._question.partition
        if epoch is None or era is None:
            # The first question of a namespace, or its epoch was evicted: one more round trip, then no more.
            begun = await self._entries.epoch(partition.namespace, deadline=self._deadline)
            if epoch is None:
                return Found(None, begun)
            epoch, era = begun[:EPOCH_BYTES], begun[EPOCH_BYTES:]
        entry = self._entries.valid(record, epoch, partition, self._entry_id)
        if entry is not None and not is_for(entry, self._question.text):
            entry = None  # two texts with one 63-bit id
        return Found(entry, epoch + era, int(alike[0], 16) if alike and alike[0] else None)
