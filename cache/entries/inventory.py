"""Looks through what the cache keeps, for those who ask no question: lists it, removes it by what it is, takes it out
and in.

It walks the store and not an index, so what it does not find is not there. Nothing that it removed comes back by a
write that was under way meanwhile: such writes come to nothing (see entries/scripts.py), whatever they are of.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from .. import identity
from ..embed import EmbedQueue, NoEmbedder
from ..model import Vector
from .accounts import Account, Accounts
from .record import Header, Record
from .scan import Walked
from .selection import Selector, means
from .store import RedisEntries

PLACE = (
    r"\d{1,2}\.\d{1,20}"  # a shard, and where in it: the store's cursor, or the least of the named entries
)

_DEADLINE_S = 5.0
_EMBED_S = 5.0
_AT_ONCE = 100
_READ_AT_ONCE = 8  # whole entries, which can be large


@dataclass(slots=True)
class Progress:
    """So far: headers looked at, entries that were meant, entries removed; of all shards to be walked those done.

    `place` is where the walk begins and then how far it is; None: at its beginning, and at its end. Where it can, after
    about `step` keys of the store, it pauses once `is_enough` says so.
    """

    place: str | None = None
    is_enough: Callable[[], bool] = lambda: False
    step: int = 2_048
    looked_at: int = 0
    found: int = 0
    removed: int = 0
    shards_done: int = 0
    shards: int = 0
    namespaces: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))  # of those found

    def __post_init__(self) -> None:
        """Raises ValueError where the place is none."""
        if self.place is not None and re.fullmatch(PLACE, self.place) is None:
            raise ValueError(f"no place of a walk: {self.place[:64]!r}")

    def begin(self) -> tuple[int, int]:
        """The first shard, and where in it."""
        shard, _, within = (self.place or "0.0").partition(".")
        return int(shard), int(within)


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
        shards = self._shards(selector)
        first, within = progress.begin()
        vector = None
        if selector.alike is not None:
            deadline = time.monotonic() + _EMBED_S
            vector = (await self._embed.embed(selector.alike, deadline=deadline, is_background=True)).vector
        tags = self._tags(selector.tags)
        progress.shards = len(shards)
        progress.shards_done = sum(shard < first for shard in shards)
        for shard in shards[progress.shards_done :]:
            begin = within if shard == first else 0
            async for place, page in self._pages(shard, selector, vector, begin=begin, step=progress.step):
                progress.looked_at += len(page)
                now_s = self._wall()
                yield [each for each in page if means(selector, each, tags=tags, now_s=now_s)]
                if place is not None:
                    progress.place = place
                    if progress.is_enough():
                        return
            progress.shards_done += 1
        progress.place = None

    async def invalidate(
        self,
        selector: Selector,
        *,
        dry_run: bool = True,
        tell: Callable[[Progress], None] = _unheard,
        progress: Progress | None = None,
    ) -> Progress:
        """Remove what is meant, and say how much that was. `tell` is called after each page."""
        progress = progress or Progress()
        if not dry_run and progress.place is None:
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

    async def records(self, selector: Selector, *, progress: Progress | None = None) -> AsyncIterator[Record]:
        """What is meant, with its texts."""
        async for page in self.headers(selector, progress=progress):
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

    async def account(self, owner: str) -> Account:
        """What the owner keeps, as its quota counts it."""
        return await self._entries.account(owner)

    async def accounts(self, owner: str, namespaces: Sequence[str], *, until: float) -> Accounts:
        """The same by namespace, as far as that is known by then (monotonic)."""
        return await self._entries.accounts(owner, namespaces, until=until)

    async def sample_seals(self) -> tuple[int, int]:
        """Of some hundreds of entries, how many are sealed and how many are not."""
        found = await asyncio.gather(*(self._entries.sample_seals(shard) for shard in range(identity.SHARDS)))
        return sum(sealed for sealed, _ in found), sum(plain for _, plain in found)

    async def _pages(
        self, shard: int, selector: Selector, vector: Vector | None, *, begin: int, step: int
    ) -> AsyncIterator[tuple[str | None, list[Header]]]:
        """With each page the place where another walk can go on, if it can there."""
        if selector.entry_ids and vector is None:
            ids = sorted(each for each in selector.entry_ids if each >= begin)
            for at in range(0, len(ids), min(step, _AT_ONCE)):
                some = ids[at : at + min(step, _AT_ONCE)]
                yield f"{shard}.{some[-1] + 1}", await self._entries.headers(shard, some)
            return
        walked = Walked(begin, step=step)
        async for page in self._scanned(shard, selector, vector, walked):
            place = f"{shard}.{walked.cursor}" if walked.cursor else f"{shard + 1}.0"
            yield place if walked.is_between else None, page

    async def _scanned(
        self, shard: int, selector: Selector, vector: Vector | None, walked: Walked
    ) -> AsyncIterator[list[Header]]:
        if vector is None:
            async for page in self._entries.walk(shard, walked):
                yield page
            return
        tag = identity.fingerprint_tag(self._secret, self._embed.fingerprint)
        async for added in self._entries.scan_vectors(shard, walked):
            near = [
                each.entry_id
                for each in added
                if identity.is_of_fingerprint(each.space, tag)
                and float(each.vector @ vector) >= selector.min_similarity
            ]
            yield await self._entries.headers(shard, near)

    def _shards(self, selector: Selector) -> list[int]:
        if selector.whose is None:
            return list(range(identity.SHARDS))
        return [identity.shard_of(self._secret, selector.whose)]

    def _tags(self, tags: Mapping[str, str]) -> dict[str, bytes]:
        return {name: identity.tag(self._secret, name, value) for name, value in tags.items()}


def _soon() -> float:
    return time.monotonic() + _DEADLINE_S
