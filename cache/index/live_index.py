"""Keeps the index of one space right while it is written to, searched and built anew by three threads.

The event loop notes changes and waits for nothing. Whoever searches applies what was noted, as far as that is
quickly done; upkeep applies the rest. Built anew it is from a copy, on upkeep's thread: what changes meanwhile
is noted in a journal too, and played on the new one before it takes the old one's place.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

from ..model import Vector
from .faiss_index import Contents, FaissIndex, joined
from .frozen import FrozenSpace, Ids
from .neighbours import Neighbours
from .plan import Plan, Shape, why_rebuild
from .training import Drawn, Pause, draw_in_no_hurry, probes_for, rank

_AT_A_TIME = 64  # changes that are applied: some milliseconds, mostly for finding their clusters
_AT_A_TIME_FLAT = 1_024  # the same where there is nothing to find
_MANY = 256
_PATIENCE_S = 0.02  # how long a search waits for changes being applied, rather than not see them
_KEPT_QUERIES = 256
_KEPT_RANKS = 512
_FEWEST_RANKS = 64
_VECTORS_AT_ONCE = 1_024  # compared while a search waits: some tenths of a millisecond
_REST = 50  # after a true nearest was looked for, so many times as long nothing is: two hundredths of a core
_LEAST_REST_S = 0.1
_AFTER_FAULT_S = 60.0
_LARGEST = 10

_Changes = dict[int, Vector | None]  # None: removed


class LiveIndex:
    """Where nothing else is said a method may be called from any thread but the loop's."""

    def __init__(self, dimension: int, plan: Plan, *, frozen: FrozenSpace | None = None) -> None:
        self.rebuilds = 0
        self.largest_clusters: list[int] = []  # their sizes, when it was looked last
        self.rebuild_s = 0.0  # how long the last one took
        self._plan = plan
        self._frozen = frozen
        self._index = FaissIndex(dimension, storage=plan.storage)
        self._noted: SimpleQueue[tuple[int, Vector | None]] = SimpleQueue()
        self._thawing = threading.Lock()
        self._applying = threading.Lock()  # taken before the next
        self._guard = threading.Lock()  # of the index: held for a millisecond or so, the other for some
        self._journal: _Changes | None = None
        self._added = 0
        self._built_with = 0
        self._first_unevenness = 1.0
        self._asked: deque[Vector] = deque(maxlen=_KEPT_QUERIES)
        self._to_try: Vector | None = None
        self._ranks: deque[int] = deque(maxlen=_KEPT_RANKS)
        self._rests_until = 0.0
        self._rebuild_after = 0.0

    def __repr__(self) -> str:
        return f"LiveIndex({self._index!r}, {self.waiting} changes wait)"

    @property
    def waiting(self) -> int:
        return self._noted.qsize()

    @property
    def clusters(self) -> int:
        return self._index.clusters

    @property
    def ranks(self) -> list[int]:
        """Of the lists that held the true nearest, in searches of late; as good as not found from `probes` on."""
        return list(self._ranks)

    @property
    def probes(self) -> int:
        return self._index.probes

    @property
    def _may_rebuild(self) -> bool:
        return time.monotonic() > self._rebuild_after

    def note(self, entry_id: int, vector: Vector | None) -> None:
        """From the loop: to be added, or removed if None."""
        self._noted.put((entry_id, vector))

    @property
    def wants_upkeep(self) -> bool:
        """Cheap, from any thread."""
        return (
            self._frozen is not None
            or self.waiting > _MANY
            or (self.clusters == 1 and len(self._index) > self._plan.flat and self._may_rebuild)
            or (self._to_try is not None and time.monotonic() > self._rests_until)
        )

    def search(self, vector: Vector, k: int) -> Neighbours:
        """Every change noted before is seen, unless more are waiting than a search has time for."""
        if self._applying.acquire(timeout=_PATIENCE_S):
            try:
                self._apply()
            finally:
                self._applying.release()
        if 2 * len(self._index) > self._plan.flat:
            self._asked.append(vector)
            self._to_try = vector
        with self._guard:
            return self._index.search(vector, k)

    def tend(self, pause: Pause) -> None:
        """On upkeep's thread: apply what waits, build anew where that is due, look whether searches find."""
        self._thaw()
        while self.catch_up():
            pause()
        if self._may_rebuild and why_rebuild(self._plan, self._shape()):
            self._rebuild(pause)
        elif self.clusters > 1 and self._to_try is not None and time.monotonic() > self._rests_until:
            self._try_one(self._to_try, pause)

    def copy(self) -> tuple[Contents, FaissIndex]:
        """What is in the index. A search waits for a small part of it to be copied at most."""
        self._thaw()
        while self.catch_up():
            pass
        index = self._index
        copied = joined(list(self._pieces_of(index)) or [index.nothing()])
        _, first = np.unique(copied.ids, return_index=True)
        return (copied if len(first) == len(copied.ids) else copied.at(first)), index

    def sizes(self) -> list[int]:
        with self._guard:
            sizes: list[int] = self._index.sizes().tolist()
        return sizes

    def _pieces_of(self, index: FaissIndex) -> Iterator[Contents]:
        """Each list from its end: removing moves the last of a list into the place, so what was not copied yet never
        comes to lie behind. It may come to be copied twice."""
        for cluster in range(index.clusters):
            end = index.size_of(cluster)
            while end:
                with self._guard:
                    end = min(end, index.size_of(cluster))
                    begin = max(0, end - _VECTORS_AT_ONCE)
                    contents = index.contents_of(cluster, begin, end)
                yield contents
                end = begin

    def catch_up(self) -> bool:
        """Apply some of what was noted; False if there was nothing."""
        with self._applying:
            return self._apply()

    def _apply(self) -> bool:
        """Whether there was anything. Of several changes of one entry the last counts."""
        if self._frozen is not None:
            return False  # first what they are changes of
        changes: _Changes = {}
        try:
            for _ in range(_AT_A_TIME_FLAT if self.clusters == 1 else _AT_A_TIME):
                entry_id, vector = self._noted.get_nowait()
                changes[entry_id] = vector
        except Empty:
            pass
        if not changes:
            return False
        if self._journal is not None:
            self._journal.update(changes)
        _play(changes, self._index, guard=self._guard)
        self._added += len(changes)
        return True

    def _thaw(self) -> None:
        with self._thawing:
            frozen = self._frozen
            if frozen is None:
                return
            index = FaissIndex(
                frozen.vectors.shape[1],
                storage=self._plan.storage,
                centroids=frozen.centroids,
                probes=frozen.probes,
            )
            lists = np.zeros(len(frozen), dtype=np.int32) if frozen.lists is None else frozen.lists
            index.fill(frozen.ids, frozen.vectors, lists)
            with self._applying:
                self._put(index)
                self._frozen = None

    def _rebuild(self, pause: Pause) -> None:
        with self._applying:
            self._journal = {}
        try:
            began = time.monotonic()
            self._rebuild_after = began + _AFTER_FAULT_S
            contents, _ = self.copy()
            drawn = draw_in_no_hurry(contents, list(self._asked), plan=self._plan, pause=pause)
            drawn.empty.fill(*contents._replace(lists=drawn.lists))
            while not self._took_over(drawn):
                pause()
            self.rebuilds += 1
            self.rebuild_s = time.monotonic() - began
            self._rebuild_after = 0.0
        finally:
            self._journal = None

    def _took_over(self, drawn: Drawn) -> bool:
        """Play the journal on the new index; put it in the old one's place if there was little to play."""
        index = drawn.empty
        with self._applying:
            changes, self._journal = self._journal or {}, {}
            if len(changes) <= _AT_A_TIME:
                _play(changes, index, guard=nullcontext())
                self._ranks.clear()
                self._ranks.extend(drawn.ranks)
                self._set_probes(index)
                self._put(index)
                return True
        _play(changes, index, guard=nullcontext())
        return False

    def _put(self, index: FaissIndex) -> None:
        self._added, self._built_with = 0, len(index)
        self._first_unevenness = _unevenness(index.sizes())
        with self._guard:
            self._index = index

    def _try_one(self, vector: Vector, pause: Pause) -> None:
        """Look for the true nearest of a vector that was searched for, in all lists, a few at a time."""
        began = time.monotonic()
        index, self._to_try = self._index, None
        at_once = max(1, _VECTORS_AT_ONCE * index.clusters // max(1, len(index)))
        best, cluster = self._plan.near, -1
        for first in range(0, index.clusters, at_once):
            pause()
            lists = np.arange(first, min(first + at_once, index.clusters), dtype=np.int32)
            with self._guard:
                found = index.search_lists(vector, lists)
            if found and found[0][1] >= best:
                best, cluster = found[0][1], found.clusters[0]
        if cluster >= 0:
            self._ranks.append(rank(vector, index.centroids, cluster))
            self._set_probes(index)
        ended = time.monotonic()
        self._rests_until = ended + max(_LEAST_REST_S, _REST * (ended - began))

    def _set_probes(self, index: FaissIndex) -> None:
        most = self._plan.most_probes(index.clusters)
        if len(self._ranks) >= _FEWEST_RANKS or index.probes == 1:
            index.probes = probes_for(self._ranks, recall=self._plan.recall, most=most)

    def _shape(self) -> Shape:
        index = self._index
        found = sum(rank < index.probes for rank in self._ranks)
        with self._guard:
            sizes = index.sizes()
        self.largest_clusters = np.sort(sizes)[: -1 - _LARGEST : -1].tolist() if len(sizes) > 1 else []
        return Shape(
            vectors=len(index),
            clusters=index.clusters,
            added=self._added,
            built_with=self._built_with,
            unevenness=_unevenness(sizes),
            first_unevenness=self._first_unevenness,
            is_short_of_recall=len(self._ranks) >= _FEWEST_RANKS
            and found < self._plan.recall * len(self._ranks),
        )


def _play(changes: _Changes, index: FaissIndex, *, guard: AbstractContextManager[object]) -> None:
    added = {entry_id: vector for entry_id, vector in changes.items() if vector is not None}
    gone = _ids(entry_id for entry_id, vector in changes.items() if vector is None)
    vectors = np.stack(list(added.values())) if added else None
    lists = None if vectors is None else index.assign(vectors)
    with guard:
        index.remove_many(gone)
        if vectors is not None:
            index.add_many(_ids(added), vectors, lists=lists)


def _unevenness(sizes: NDArray[np.int64]) -> float:
    return float(len(sizes) * np.sum(sizes.astype(np.float64) ** 2) / max(1, sizes.sum()) ** 2)


def _ids(ids: Iterable[int]) -> Ids:
    return np.fromiter(ids, dtype=np.int64)
