"""One space: its ids with their times, which belong to the loop, and its vectors, which are searched elsewhere.

A few vectors are kept as they are: most spaces never have more. Beyond that they get an index.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..model import Vector
from .frozen import FrozenSpace, Ids, Rows
from .full_vectors import FullVectors
from .live_index import LiveIndex
from .neighbours import Neighbours
from .plan import Plan
from .training import Pause
from .upkeep import A_MOMENT_S, Upkeep

_BYTES = 700  # of a space with nothing in it
_NEIGHBOURS = 8
_WIDEN = 4  # where what was found is gone already, so many times as many are looked for
_MOST_FOUND = 1_024
NO_DRAWING = "0"  # there is one cluster, and nothing to draw
_TOLD_AT_ONCE = 2_000  # ids whose times are read while the loop waits: a tenth of a millisecond


class Space:
    """Methods belong to the loop unless they say otherwise."""

    __slots__ = ("_few", "_full", "_live", "_plan", "_upkeep", "_wall", "dimension", "ids", "name")

    def __init__(
        self,
        name: bytes,
        dimension: int,
        *,
        plan: Plan,
        upkeep: Upkeep,
        wall: Callable[[], float],
        full: FullVectors | None = None,
    ) -> None:
        self.name = name
        self.dimension = dimension
        # When each expires, in order of arrival, so that the oldest can be let go first.
        self.ids: dict[int, float] = {}
        self._plan = plan
        self._upkeep = upkeep
        self._wall = wall
        self._full = full
        self._few: dict[int, Rows] = {}
        self._live: LiveIndex | None = None

    def __repr__(self) -> str:
        return f"Space({len(self.ids)} vectors, {self._live or 'no index'})"

    @property
    def bytes(self) -> int:
        """What it takes, about."""
        return _BYTES + len(self.ids) * self._plan.bytes_of(self.dimension, is_few=self._live is None)

    @property
    def drawing(self) -> str:
        """Names how its clusters are drawn."""
        return NO_DRAWING if self._live is None else self._live.drawing

    @property
    def index(self) -> LiveIndex | None:
        """None while there are only a few."""
        return self._live

    def add(self, entry_id: int, vector: Vector, *, expires_at_s: float) -> None:
        is_known = entry_id in self.ids
        self.ids[entry_id] = expires_at_s
        if is_known:
            return
        if self._live is not None:
            self._note(self._live, entry_id, vector)
            return
        self._few[entry_id] = self._plan.few_kept_as(vector)
        if len(self._few) > self._plan.few:
            self._grow(LiveIndex(self.dimension, self._plan, full=self._full))

    def remove(self, entry_id: int) -> None:
        if self.ids.pop(entry_id, None) is None:
            return
        if self._live is None:
            del self._few[entry_id]
        else:
            self._note(self._live, entry_id, None)

    def thaw(self, frozen: FrozenSpace) -> None:
        """Into an empty space. Nothing is found until upkeep has built the index, if it needs one."""
        if len(frozen) > self._plan.few:
            self._grow(LiveIndex(self.dimension, self._plan, full=self._full, frozen=frozen))
        else:
            vectors = self._plan.few_kept_as(frozen.vectors)
            self._few = {
                entry_id: row.copy() for entry_id, row in zip(frozen.ids.tolist(), vectors, strict=True)
            }
        self.ids = dict(zip(frozen.ids.tolist(), frozen.expires_at_s.tolist(), strict=True))
        now = self._wall()
        for entry_id in [each for each, expires_at_s in self.ids.items() if expires_at_s <= now]:
            self.remove(entry_id)

    def search(self, vector: Vector) -> Neighbours:
        """The nearest that live, best first. On the thread that embeds."""
        if len(vector) != self.dimension:
            return Neighbours()
        few, live = self._few, self._live  # in this order: what has left the first is in the second
        if live is None:
            return _compared(few.copy(), vector).first(_NEIGHBOURS, where=self._lives)
        wanted = _NEIGHBOURS
        while True:
            found = live.search(vector, wanted)
            alive = found.first(_NEIGHBOURS, where=self._lives)
            if len(alive) == _NEIGHBOURS or len(found) < wanted or wanted >= _MOST_FOUND:
                break
            wanted *= _WIDEN
        if live.wants_upkeep:
            self._upkeep.note(live)
        return alive

    def freeze(self) -> FrozenSpace:
        """A copy of what it holds. Takes as long as copying takes: not on the loop."""
        few, live = self._few, self._live
        if live is None:
            kept = few.copy()
            vectors = self._plan.few_kept_as(np.array(list(kept.values())).reshape(-1, self.dimension))
            ids, lists, index = np.fromiter(kept, dtype=np.int64), None, None
        else:
            (ids, vectors, lists), index = live.copy_whole()
        expires_at_s = self._times(ids)
        stays = expires_at_s > self._wall()
        ids, expires_at_s, vectors = ids[stays], expires_at_s[stays], vectors[stays]
        if lists is None or index is None or index.clusters == 1:
            return FrozenSpace(self.name, ids, expires_at_s, vectors)
        return FrozenSpace(self.name, ids, expires_at_s, vectors, index.centroids, lists[stays], index.probes)

    def cluster_sizes(self) -> tuple[str, list[int]]:
        """How the clusters are drawn, and the vectors in each. Not on the loop."""
        return (NO_DRAWING, [len(self.ids)]) if self._live is None else self._live.sizes()

    def ids_of(self, cluster: int) -> tuple[str, list[int]]:
        """The same drawing, and the ids in a cluster of it. Not on the loop."""
        if self._live is None:
            return NO_DRAWING, list(self.ids) if cluster == 0 else []
        return self._live.ids_of(cluster)

    def tend(self, pause: Pause) -> None:
        """Once it was dropped, on upkeep's thread: letting go of very much takes a while, and the loop has none."""
        if self._live is not None:
            self._live.let_go()
        while self.ids:
            for entry_id in list(itertools.islice(self.ids, _TOLD_AT_ONCE)):
                del self.ids[entry_id]
            pause()

    def _grow(self, live: LiveIndex) -> None:
        for entry_id, vector in self._few.items():
            live.note(entry_id, vector.astype(np.float32, copy=False))
        self._live = live
        self._few = {}
        if live.wants_upkeep:
            self._upkeep.note(live)

    def _note(self, live: LiveIndex, entry_id: int, vector: Vector | None) -> None:
        live.note(entry_id, vector)
        if live.wants_upkeep:
            self._upkeep.note(live)

    def _lives(self, entry_id: int) -> bool:
        expires_at_s = self.ids.get(entry_id)
        return expires_at_s is not None and expires_at_s > self._wall()

    def _times(self, ids: Ids) -> NDArray[np.float64]:
        """Zero for what is gone."""
        times = np.zeros(len(ids))
        for begin in range(0, len(ids), _TOLD_AT_ONCE):
            some = ids[begin : begin + _TOLD_AT_ONCE].tolist()
            times[begin : begin + len(some)] = [self.ids.get(entry_id, 0.0) for entry_id in some]
            time.sleep(A_MOMENT_S)  # the loop may go on
        return times


def _compared(few: dict[int, Rows], vector: Vector) -> Neighbours:
    if not few:
        return Neighbours()
    cosines = np.clip(np.array(list(few.values()), dtype=np.float32) @ vector, -1.0, 1.0)
    found = sorted(zip(few, cosines.tolist(), strict=True), key=lambda pair: -pair[1])
    return Neighbours(found, [0] * len(found))
