"""Owns this process's vector indexes: one for each space that was ever written to, bounded in all.

The event loop says what is in a space, and is never made to wait; the embed thread searches, and sees what was
said before. What is due goes by itself. Over the bound the space that was unused for longest goes as a whole: it
is fetched again when somebody asks for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from heapq import nlargest
from typing import Protocol

from ..identity import is_of_namespace, tag_of_space
from ..model import Value, Vector
from .clusters import Cluster, Searches
from .due import Due
from .frozen import FrozenSpace
from .full_vectors import FullVectors
from .live_index import LiveIndex
from .neighbours import Neighbours
from .plan import Plan
from .space import Space
from .upkeep import Upkeep

_SWEPT_AT_ONCE = 128  # half a millisecond
_WANTED_AT_ONCE = 64
_LARGEST = 10  # clusters of which the sizes are told
_REMEMBERED = 65_536  # names of spaces that went


class Kept(Protocol):
    """What is known of an entry that has a vector."""

    @property
    def entry_id(self) -> int: ...

    @property
    def vector(self) -> Vector: ...

    @property
    def expires_at_s(self) -> float: ...


class IndexState(Value, frozen=True):
    """What there is, and since the start. `recall`: the share of searches that found the true nearest, of those that
    had one near enough and were looked at; None where all vectors are compared, or none was looked at."""

    spaces: int
    vectors: int
    bytes: int
    indexes: int
    clustered: int
    waiting: int
    rebuilds: int
    failures: int
    evicted: int
    reloaded: int
    recall: float | None
    largest_clusters: tuple[int, ...]


class Spaces:
    """All spaces of a process. On the loop only. `most_bytes` bounds what their vectors take."""

    def __init__(
        self,
        plan: Plan | None = None,
        *,
        most_bytes: int = 512 << 20,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._plan = plan or Plan()
        self.most_bytes = most_bytes
        self._wall = wall
        self._spaces: dict[bytes, Space] = {}  # least recently used first
        self._by_namespace: dict[bytes, set[bytes]] = {}
        self._indexed: dict[bytes, LiveIndex] = {}
        self._due = Due()
        self._searches = Searches()
        self._vectors = 0
        self._bytes = 0
        self._upkeep = Upkeep()
        self._full = FullVectors() if self._plan.storage == "int8" else None
        self._gone: dict[bytes, None] = {}  # spaces that had to make room, and were not asked for since
        self._wanted: asyncio.Queue[bytes] = asyncio.Queue(_WANTED_AT_ONCE)
        self._evicted = self._reloaded = self._rebuilds = 0  # the last: of those that are no more

    def __repr__(self) -> str:
        used, most = self._bytes >> 20, self.most_bytes >> 20
        return f"Spaces({len(self._spaces)} spaces, {self._vectors} vectors, {used} of {most} MiB)"

    def __len__(self) -> int:
        """Vectors in all."""
        return self._vectors

    def __iter__(self) -> Iterator[Space]:
        return iter(list(self._spaces.values()))

    def find(self, space: bytes) -> Space | None:
        """The space if anything is in it: else there is nothing a text could be compared with."""
        self._sweep()
        if space in self._gone and not self._wanted.full():
            del self._gone[space]
            self._wanted.put_nowait(space)
        found = self._spaces.pop(space, None)
        if found is not None:
            self._spaces[space] = found
        return found

    def add(self, space: bytes, entry_id: int, vector: Vector, *, expires_at_s: float) -> None:
        """An id that is known keeps its vector: it names one text, and a text has one vector in a space. A vector of
        another length than the others of its space is none of them."""
        self._sweep()
        if expires_at_s <= self._wall():
            return
        found = self._spaces.pop(space, None) or self._new(space, len(vector))
        self._spaces[space] = found
        if found.dimension != len(vector):
            return
        before, size = len(found.ids), found.bytes
        found.add(entry_id, vector, expires_at_s=expires_at_s)
        self._count(found, len(found.ids) - before, found.bytes - size)
        self._due.note(space, entry_id, expires_at_s=expires_at_s)
        self._make_room(found)

    def remove(self, space: bytes, entry_id: int) -> None:
        found = self._spaces.get(space)
        if found is not None and entry_id in found.ids:
            size = found.bytes
            found.remove(entry_id)
            self._count(found, -1, found.bytes - size)
            if not found.ids:
                self._drop(space)

    def remove_from_namespace(self, tag: bytes, entry_id: int) -> None:
        """For those who know the entry but not its partition."""
        for name in list(self._by_namespace.get(tag, ())):
            self.remove(name, entry_id)

    def drop_namespace(self, tag: bytes) -> None:
        for name in list(self._by_namespace.get(tag, ())):
            self._drop(name)
        self._gone = {name: None for name in self._gone if not is_of_namespace(name, tag)}

    def thaw(self, frozen: FrozenSpace) -> None:
        """Put back what was frozen; entries that are due stay away. Searches find it once `settle` is through."""
        if frozen.name in self._spaces:
            for entry_id, vector, expires_at_s in zip(
                frozen.ids.tolist(), frozen.vectors, frozen.expires_at_s.tolist(), strict=True
            ):
                self.add(frozen.name, entry_id, vector.astype("float32"), expires_at_s=expires_at_s)
            return
        found = self._spaces[frozen.name] = self._new(frozen.name, frozen.vectors.shape[1])
        size = found.bytes
        found.thaw(frozen)
        self._count(found, len(found.ids), found.bytes - size)
        for entry_id, expires_at_s in found.ids.items():
            self._due.note(frozen.name, entry_id, expires_at_s=expires_at_s)
        if not found.ids:
            self._drop(frozen.name)
        self._make_room(found)

    async def settle(self, *, within_s: float = 60.0) -> bool:
        """Wait until the indexes hold what was said so far; False if that takes longer."""
        for index in self._indexed.values():
            self._upkeep.note(index)
        return await asyncio.to_thread(self._upkeep.settle, within_s=within_s)

    async def reload(self, load: Callable[[bytes], Awaitable[Iterable[Kept]]]) -> None:
        """Bring back the spaces that went and are asked for, one after another, until cancelled.

        What `load` raises is raised: the space is asked for again by the next who looks for it.
        """
        while True:
            name = await self._wanted.get()
            try:
                entries = await load(name)
            except BaseException:
                self._remember(name)
                raise
            for entry in entries:
                self.add(name, entry.entry_id, entry.vector, expires_at_s=entry.expires_at_s)
            self._reloaded += 1

    def note_search(self, space: bytes, near: Neighbours, *, is_hit: bool) -> None:
        """What a search found, and whether that answered."""
        found = self._spaces.get(space)
        if found is not None and near:
            where = space, found.drawing, near.clusters[0]
            self._searches.note(*where, similarity=near[0][1], is_hit=is_hit)

    def clusters(self, tag: bytes, *, most: int) -> list[Cluster]:
        """The largest ones of a namespace. Not on the loop: a search may have to end first."""
        found = [self._spaces.get(name) for name in list(self._by_namespace.get(tag, ()))]
        largest = nlargest(most, (each for each in found if each is not None), key=lambda each: len(each.ids))
        told = []
        for space in largest:
            drawing, sizes = space.cluster_sizes()
            told += [
                self._searches.told(space.name, drawing, number, size=size)
                for number, size in enumerate(sizes)
            ]
        return nlargest(most, told, key=lambda each: each.size)

    def ids_of(self, space: bytes, cluster: int) -> tuple[str, list[int]]:
        """How the space's clusters are drawn, and what lies in that one. Not on the loop."""
        found = self._spaces.get(space)
        return ("", []) if found is None else found.ids_of(cluster)

    def state(self) -> IndexState:
        indexes = list(self._indexed.values())
        sizes = [size for index in indexes for size in index.largest_clusters]
        tried = [(rank < index.probes) for index in indexes for rank in index.ranks]
        return IndexState(
            spaces=len(self._spaces),
            vectors=self._vectors,
            bytes=self._bytes,
            indexes=len(indexes),
            clustered=sum(index.clusters > 1 for index in indexes),
            waiting=sum(index.waiting for index in indexes),
            rebuilds=self._rebuilds + sum(index.rebuilds for index in indexes),
            failures=self._upkeep.failures + (0 if self._full is None else self._full.failures),
            evicted=self._evicted,
            reloaded=self._reloaded,
            recall=sum(tried) / len(tried) if tried else None,
            largest_clusters=tuple(sorted(sizes, reverse=True)[:_LARGEST]),
        )

    def close(self) -> None:
        """Ends upkeep: waits for what it is at, some seconds at most."""
        self._upkeep.close()
        if self._full is not None:
            self._full.close()

    def _new(self, name: bytes, dimension: int) -> Space:
        made = Space(name, dimension, plan=self._plan, upkeep=self._upkeep, wall=self._wall, full=self._full)
        self._bytes += made.bytes
        self._by_namespace.setdefault(tag_of_space(name), set()).add(name)
        return made

    def _count(self, changed: Space, vectors: int, size: int) -> None:
        self._vectors += vectors
        self._bytes += size
        if changed.index is not None:
            self._indexed[changed.name] = changed.index

    def _drop(self, name: bytes) -> None:
        dropped = self._spaces.pop(name)
        self._vectors -= len(dropped.ids)
        self._bytes -= dropped.bytes
        tag = tag_of_space(name)
        self._by_namespace[tag].discard(name)
        if not self._by_namespace[tag]:
            del self._by_namespace[tag]
        if (index := self._indexed.pop(name, None)) is not None:
            self._rebuilds += index.rebuilds
            self._upkeep.note(dropped)

    def _make_room(self, newest: Space) -> None:
        while self._bytes > self.most_bytes:
            name, oldest = next(iter(self._spaces.items()))
            if oldest is newest:
                self.remove(name, next(iter(oldest.ids)))
            else:
                self._drop(name)
                self._remember(name)
                self._evicted += 1

    def _remember(self, name: bytes) -> None:
        self._gone[name] = None
        if len(self._gone) > _REMEMBERED:
            del self._gone[next(iter(self._gone))]

    def _sweep(self) -> None:
        """Let go of what is due, a bounded number at a time. Until then searches pass over it."""
        now = self._wall()
        for name, entry_id in self._due.take(now, most=_SWEPT_AT_ONCE):
            found = self._spaces.get(name)
            if found is not None and found.ids.get(entry_id, now + 1) <= now:
                self.remove(name, entry_id)
