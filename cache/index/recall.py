"""Watches whether searches in clusters find the true nearest, and says how many clusters they must look into.

Now and then what was searched for is compared with everything, behind the path and a little at a time. What counts
is the rank of the cluster that holds the true nearest: a search finds it if it looks into more clusters than that.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from threading import Lock

import numpy as np

from ..model import Vector
from .faiss_index import FaissIndex
from .plan import Plan
from .training import Pause, probes_for, rank

_KEPT_QUERIES = 256
_KEPT_RANKS = 512
_FEWEST_RANKS = 64
_VECTORS_AT_ONCE = 1_024  # compared while a search waits: some tenths of a millisecond
_REST = 50  # after one was tried, so many times as long none is: two hundredths of a core
_LEAST_REST_S = 0.1


class Recall:
    """Of one index. `note` is for the thread that searches, all else for upkeep's."""

    def __init__(self, plan: Plan) -> None:
        self.asked: deque[Vector] = deque(maxlen=_KEPT_QUERIES)
        self.ranks: deque[int] = deque(maxlen=_KEPT_RANKS)
        self._plan = plan
        self._to_try: Vector | None = None
        self._rests_until = 0.0

    @property
    def is_due(self) -> bool:
        return self._to_try is not None and time.monotonic() > self._rests_until

    def note(self, vector: Vector) -> None:
        """This was searched for."""
        self.asked.append(vector)
        self._to_try = vector

    def begin(self, index: FaissIndex, ranks: Sequence[int]) -> None:
        """With the ranks that were found when its clusters were drawn."""
        self.ranks.clear()
        self.ranks.extend(ranks)
        index.probes = self._probes(index)

    def is_short(self, index: FaissIndex) -> bool:
        found = sum(each < index.probes for each in list(self.ranks))
        return len(self.ranks) >= _FEWEST_RANKS and found < self._plan.recall * len(self.ranks)

    def try_one(self, index: FaissIndex, guard: Lock, pause: Pause) -> None:
        vector, self._to_try = self._to_try, None
        if vector is None:
            return
        began = time.monotonic()
        at_once = max(1, _VECTORS_AT_ONCE * index.clusters // max(1, len(index)))
        best, cluster = self._plan.near, -1
        for first in range(0, index.clusters, at_once):
            pause()
            lists = np.arange(first, min(first + at_once, index.clusters), dtype=np.int32)
            with guard:
                found = index.search_lists(vector, lists)
            if found and found[0][1] >= best:
                best, cluster = found[0][1], found.clusters[0]
        if cluster >= 0:
            self.ranks.append(rank(vector, index.centroids, cluster))
            if len(self.ranks) >= _FEWEST_RANKS:
                index.probes = self._probes(index)
        ended = time.monotonic()
        self._rests_until = ended + max(_LEAST_REST_S, _REST * (ended - began))

    def _probes(self, index: FaissIndex) -> int:
        most = self._plan.most_probes(index.clusters)
        return probes_for(list(self.ranks), recall=self._plan.recall, most=most)
