"""Where vectors are kept: looked up and written some at a time, each time with a deadline of its own.

A store that is late once is not asked for the rest of a batch.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from cache import Answer, Hit, Miss, Question, SemanticCache, Ticket

T = TypeVar("T")

# Of one round trip: what the loop does between two turns, and what the store does at once.
_AT_ONCE = 32
# Batches whose vectors are being written; of more, none are kept.
_LATE_WRITES = 256
_CLOSE_S = 5.0


class Shelf:
    """`aclose` waits for what is still being written."""

    def __init__(self, cache: SemanticCache, *, store_deadline_s: float) -> None:
        self._cache = cache
        self._store_deadline_s = store_deadline_s
        self._writing: set[asyncio.Task[str]] = set()

    async def aclose(self) -> None:
        if self._writing:
            await asyncio.wait(self._writing, timeout=_CLOSE_S)

    async def look_up(self, questions: Sequence[Question]) -> list[Hit | Miss]:
        found: list[Hit | Miss] = []
        for some in _parts(questions):
            deadline = time.monotonic() + self._store_deadline_s
            lookups = [self._cache.begin(question, deadline=deadline) for question in some]
            found += [await lookup.result() for lookup in lookups]
            if isinstance(found[-1], Miss) and found[-1].ticket is None:
                break  # the store is late or away
        return found + [Miss("store-down", ())] * (len(questions) - len(found))

    async def tickets(self, questions: Sequence[Question]) -> list[Ticket | None]:
        """For a refresh. None: the store did not answer."""
        found: list[Ticket | None] = []
        for some in _parts(questions):
            deadline = time.monotonic() + self._store_deadline_s
            found += await asyncio.gather(
                *(self._cache.ticket(question, deadline=deadline) for question in some)
            )
            if found[-1] is None:
                break
        return found + [None] * (len(questions) - len(found))

    async def keep(self, pairs: Sequence[tuple[Ticket, Answer]], *, ttl_s: float | None) -> str | None:
        """Goes on to its end though the caller leaves. "stored", or why one was not; None: there was nothing to do, or
        no room to do it."""
        if not pairs or len(self._writing) >= _LATE_WRITES:
            return None
        task = asyncio.create_task(self._write(pairs, ttl_s))
        self._writing.add(task)
        task.add_done_callback(self._writing.discard)
        return await asyncio.shield(task)

    async def _write(self, pairs: Sequence[tuple[Ticket, Answer]], ttl_s: float | None) -> str:
        reasons: list[str] = []
        for some in _parts(pairs):
            stored = await asyncio.gather(
                *(self._cache.store(ticket, answer, ttl_s=ttl_s) for ticket, answer in some)
            )
            reasons += (each.reason for each in stored)
            if reasons[-1] == "store-down":
                break
        return next((reason for reason in reasons if reason != "stored"), "stored")


def _parts(whole: Sequence[T]) -> Iterator[Sequence[T]]:
    return (whole[at : at + _AT_ONCE] for at in range(0, len(whole), _AT_ONCE))
