"""Looks through what the cache keeps, for those who ask no question: lists it, removes it by what it is, takes it out
and in.

It walks the store and not an index, so what it does not find is not there. Nothing that it removed comes back by a
write that was under way meanwhile: such writes come to nothing (see entry_scripts.py), whatever they are of.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec.structs import replace

from . import identity
from .embed import EmbedQueue, NoEmbedder
from .entry_record import Header, Record
from .entry_store import RedisEntries
from .selection import Selector, means

_DEADLINE_S = 5.0
_EMBED_S = 5.0
_AT_ONCE = 100
_READ_AT_ONCE = 8  # whole entries, which can be large


@dataclass(slots=True)
class Progress:
    """So far: headers looked at, entries that were meant, entries removed; of all shards to be walked those done."""

    looked_at: int = 0
    found: int = 0
    removed: int = 0
    shards_done: int = 0
    shards: int = 0
    namespaces: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # of those found


def _unheard(progress: Progress) -> None:
    pass


class Inventory:
    """All methods raise `StoreUnavailable` where the store does not answer, and with a selector that has `alike`
    `UnfitText` or `EmbedderBusy` where that text cannot be embedded. What was done until then is done."""

    def __init__(
        self,
        entries: RedisEntries,
        embed: EmbedQueue | NoEmbedder,
        *,
        secret: bytes,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._entries = entries
        self._embed = embed
        self._secret = secret
        self._wall = wall

    async def headers(
        self, selector: Selector, *, progress: Progress | None = None
    ) -> AsyncIterator[list[Header]]:
        """Pages of what is meant and may be served now; now and then an empty one. An entry can come twice."""
        progress = progress or Progress()
        vector = None
        if selector.alike is not None:
            deadline = time.monotonic() + _EMBED_S
            vector = (await self._embed.embed(selector.alike, deadline=deadline, is_background=True)).vector
        tags = self._tags(selector.tags)
        shards = self._shards(selector)
        progress.shards = len(shards)
        for shard in shards:
            chosen = selector
            if vector is not None:
                near = await self._near(shard, vector, selector.min_similarity)
                ids = near & selector.entry_ids if selector.entry_ids else near
                chosen = replace(selector, entry_ids=frozenset(ids))
                if not ids:
                    progress.shards_done += 1
                    continue
            async for page in self._pages(shard, sorted(chosen.entry_ids)):
                progress.looked_at += len(page)
                now_s = self._wall()
                meant = [each for each in page if means(chosen, each, tags=tags, now_s=now_s)]
                yield meant
            progress.shards_done += 1

    async def invalidate(
        self,
        selector: Selector,
        *,
        dry_run: bool = True,
        tell: Callable[[Progress], None] = _unheard,
    ) -> Progress:
        """Remove what is meant, and say how much that was. `tell` is called after each page."""
        progress = Progress()
        if not dry_run:
            await self._entries.begin_era(selector.whose, deadline=_soon())
        seen: set[int] = set()
        async for page in self.headers(selector, progress=progress):
            by_namespace: dict[str, list[int]] = defaultdict(list)
            for header in page:
                if header.entry_id not in seen:
                    seen.add(header.entry_id)
                    by_namespace[header.namespace].append(header.entry_id)
                    progress.found += 1
                    progress.namespaces[header.namespace] += 1
            if not dry_run:
                for namespace, ids in by_namespace.items():
                    progress.removed += await self._remove(namespace, ids)
            tell(progress)
        return progress

    async def records(self, selector: Selector) -> AsyncIterator[Record]:
        """What is meant, with its texts."""
        async for page in self.headers(selector):
            by_namespace: dict[str, list[int]] = defaultdict(list)
            for header in page:
                by_namespace[header.namespace].append(header.entry_id)
            for namespace, ids in by_namespace.items():
                for start in range(0, len(ids), _READ_AT_ONCE):
                    some = ids[start : start + _READ_AT_ONCE]
                    for record in await self._read(namespace, some):
                        if record is not None:
                            yield record

    async def _read(self, namespace: str, ids: Sequence[int]) -> list[Record | None]:
        deadline = _soon()
        return await asyncio.gather(*(self._entries.read(namespace, each, deadline=deadline) for each in ids))

    async def _remove(self, namespace: str, ids: Sequence[int]) -> int:
        removed = 0
        for start in range(0, len(ids), _AT_ONCE):
            some = ids[start : start + _AT_ONCE]
            removed += await self._entries.remove(namespace, some, deadline=_soon())
        return removed

    async def _pages(self, shard: int, ids: Sequence[int]) -> AsyncIterator[list[Header]]:
        if not ids:
            async for page in self._entries.walk(shard):
                yield page
        for start in range(0, len(ids), _AT_ONCE):
            yield await self._entries.headers(shard, ids[start : start + _AT_ONCE])

    async def _near(self, shard: int, vector: np.ndarray, minimum: float) -> set[int]:
        found: set[int] = set()
        tag = identity.fingerprint_tag(self._secret, self._embed.fingerprint)
        async for page in self._entries.scan_vectors(shard):
            for each in page:
                is_comparable = identity.is_of_fingerprint(each.space, tag)
                if is_comparable and float(each.vector @ vector) >= minimum:
                    found.add(each.entry_id)
        return found

    def _shards(self, selector: Selector) -> list[int]:
        if selector.whose is None:
            return list(range(identity.SHARDS))
        return [identity.shard_of(self._secret, selector.whose)]

    def _tags(self, tags: Mapping[str, str]) -> dict[str, bytes]:
        return {name: identity.tag(self._secret, name, value) for name, value in tags.items()}


def _soon() -> float:
    return time.monotonic() + _DEADLINE_S
