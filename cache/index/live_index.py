"""Keeps the index of one space right while it is written to, searched and built anew by three threads.

The event loop notes changes and waits for nothing. Whoever searches applies what was noted, as far as that is
quickly done; upkeep applies the rest. Built anew it is from a copy, on upkeep's thread: what changes meanwhile
is noted in a journal too, and played on the new one before it takes the old one's place.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue

import numpy as np
from numpy.typing import NDArray

from ..model import Vector
from .faiss_index import Contents, FaissIndex, joined
from .frozen import FrozenSpace, Ids
from .full_vectors import FullVectors, FullVectorsOfOne
from .neighbours import Neighbours
from .plan import Plan, Shape, why_rebuild
from .recall import Recall
from .training import Drawn, Pause, draw_in_no_hurry

_AT_A_TIME = 64  # changes that are applied: half a millisecond, and some more to find their clusters
_AT_A_SEARCH = 1_024  # the same by a search, where there is nothing to find
_MANY = 256
_PATIENCE_S = 0.02  # how long a search waits for changes being applied, rather than not see them
_COPIED_AT_ONCE = 1_024  # vectors, while a search waits: some tenths of a millisecond
_AFTER_FAULT_S = 60.0
_LARGEST = 10

_Changes = dict[int, Vector | None]  # None: removed


class LiveIndex:
    """Where nothing else is said a method may be called from any thread but the loop's."""

    def __init__(
        self,
        dimension: int,
        plan: Plan,
        *,
        full: FullVectors | None = None,
        frozen: FrozenSpace | None = None,
    ) -> None:
        self.rebuilds = 0
        self.largest_clusters: list[int] = []  # their sizes, when it was looked last
        self.rebuild_s = 0.0  # how long the last one took
        self._plan = plan
        self._frozen = frozen
        self._full = None if full is None else FullVectorsOfOne(full)
        self._index = FaissIndex(dimension, storage=plan.storage, full=self._full)
        self._noted: SimpleQueue[tuple[int, Vector | None]] = SimpleQueue()
        self._thawing = threading.Lock()
        self._applying = threading.Lock()  # taken before the next
        self._guard = threading.Lock()  # of the index: held for a millisecond or so, the other for some
        self._journal: _Changes | None = None
        self._is_gone = False
        self._added = 0
        self._built_with = 0
        self._first_unevenness = 1.0
        self._recall = Recall(plan)
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
    def drawing(self) -> str:
        return self._index.drawing

    @property
    def ranks(self) -> list[int]:
        """Of the lists that held the true nearest, in searches of late; as good as not found from `probes` on."""
        return list(self._recall.ranks)

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
            or (self.clusters > 1 and self._recall.is_due)
        )

    def search(self, vector: Vector, k: int) -> Neighbours:
        """Every change noted before is seen, unless more are waiting than a search has time for."""
        if self._applying.acquire(timeout=_PATIENCE_S):
            try:
                self._apply(_AT_A_SEARCH if self.clusters == 1 else _AT_A_TIME)
            finally:
                self._applying.release()
        if 2 * len(self._index) > self._plan.flat:
            self._recall.note(vector)
        with self._guard:
            return self._index.search(vector, k)

    def tend(self, pause: Pause) -> None:
        """On upkeep's thread: apply what waits, build anew where that is due, look whether searches find."""
        if self._is_gone:
            return
        self._thaw()
        while self.catch_up():
            pause()
        if self._may_rebuild and why_rebuild(self._plan, self._shape()):
            self._rebuild(pause)
        elif self.clusters > 1 and self._recall.is_due:
            self._recall.try_one(self._index, self._guard, pause)

    def copy(self) -> tuple[Contents, FaissIndex]:
        """What is in the index. A search waits for a small part of it to be copied at most."""
        self._thaw()
        while self.catch_up():
            pass
        index = self._index
        copied = joined(list(self._pieces_of(index)) or [index.nothing()])
        _, first = np.unique(copied.ids, return_index=True)
        return (copied if len(first) == len(copied.ids) else copied.at(first)), index

    def copy_whole(self) -> tuple[Contents, FaissIndex]:
        """The same with whole vectors, where the index has coarse ones."""
        contents, index = self.copy()
        if self._full is None:
            return contents, index
        is_there, rows = self._full.rows(contents.ids, index.dimension)
        return Contents(contents.ids[is_there], rows, contents.lists[is_there]), index

    def let_go(self) -> None:
        """Nobody will search it any more."""
        self._is_gone = True
        if self._full is not None:
            for piece in self._pieces_of(self._index):
                self._full.remove(piece.ids)

    def sizes(self) -> tuple[str, list[int]]:
        """How the clusters are drawn, and the vectors in each."""
        with self._guard:
            return self._index.drawing, self._index.sizes().tolist()

    def ids_of(self, cluster: int) -> tuple[str, list[int]]:
        """The same drawing, and the ids in a cluster of it."""
        with self._guard:
            return self._index.drawing, self._index.ids_of(cluster)

    def _pieces_of(self, index: FaissIndex) -> Iterator[Contents]:
        """Each list from its end: removing moves the last of a list into the place, so what was not copied yet never
        comes to lie behind. It may come to be copied twice."""
        for cluster in range(index.clusters):
            end = index.size_of(cluster)
            while end:
                with self._guard:
                    end = min(end, index.size_of(cluster))
                    begin = max(0, end - _COPIED_AT_ONCE)
                    contents = index.contents_of(cluster, begin, end)
                yield contents
                end = begin

    def catch_up(self) -> bool:
        """Apply some of what was noted; False if there was nothing."""
        with self._applying:
            return self._apply(_AT_A_TIME)

    def _apply(self, most: int) -> bool:
        """Whether there was anything. Of several changes of one entry the last counts."""
        if self._frozen is not None:
            return False  # first what they are changes of
        changes: _Changes = {}
        try:
            for _ in range(most):
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
            if self._full is not None:
                self._full.put(frozen.ids, frozen.vectors.astype(np.float32))
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
            drawn = draw_in_no_hurry(contents, list(self._recall.asked), plan=self._plan, pause=pause)
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
                self._recall.begin(index, drawn.ranks)
                self._put(index)
                return True
        _play(changes, index, guard=nullcontext())
        return False

    def _put(self, index: FaissIndex) -> None:
        self._added, self._built_with = 0, len(index)
        self._first_unevenness = _unevenness(index.sizes())
        index.full = self._full  # which was kept up all the while
        with self._guard:
            self._index = index

    def _shape(self) -> Shape:
        index = self._index
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
            is_short_of_recall=self._recall.is_short(index),
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
