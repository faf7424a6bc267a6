"""The flat index: every stored vector is compared, exactly. Right up to some ten thousand vectors.

Removing from a flat index moves all that lies behind (72 ms among 100,000), so removed ids are only marked,
and taken out many at a time.
"""

from __future__ import annotations

import faiss
import numpy as np

from ..model import Vector

_FEWEST_TO_SWEEP = 64
_SHARE_TO_SWEEP = 50  # one in so many


class FaissIndex:
    """`VectorIndex` on Faiss. Vectors are of unit length, so the inner product is the cosine."""

    def __init__(self, dimension: int) -> None:
        self._index = faiss.IndexIDMap2(faiss.IndexFlatIP(dimension))
        self._known: set[int] = set()
        self._removed: set[int] = set()

    def __repr__(self) -> str:
        return f"FaissIndex({len(self)} vectors, {len(self._removed)} to be swept)"

    def __len__(self) -> int:
        return len(self._known) - len(self._removed)

    def add(self, entry_id: int, vector: Vector) -> None:
        if entry_id in self._known:
            if np.array_equal(self._index.reconstruct(entry_id), vector):
                self._removed.discard(entry_id)  # the same text came back after its entry had expired
                return
            self._take_out({entry_id})
        self._index.add_with_ids(vector[np.newaxis], np.array([entry_id], dtype=np.int64))
        self._known.add(entry_id)

    def remove(self, entry_id: int) -> None:
        if entry_id not in self._known:
            return
        self._removed.add(entry_id)
        if len(self._removed) > max(_FEWEST_TO_SWEEP, len(self._known) // _SHARE_TO_SWEEP):
            self._take_out(set(self._removed))

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        if not len(self):
            return []
        # The marked ones may be the nearest: ask for as many more, so that k live ones are left.
        wanted = min(k + len(self._removed), len(self._known))
        # For the calling thread only, which is why it is said here each time. Two threads for one query are slower
        # than one, and then spin for milliseconds on cores that others need.
        faiss.omp_set_num_threads(1)
        cosines, ids = self._index.search(vector[np.newaxis], wanted)
        found = zip(ids[0].tolist(), cosines[0].tolist(), strict=True)
        # Rounding takes the product of a vector with itself a hair beyond 1.
        live = [
            (entry_id, max(-1.0, min(1.0, cosine)))
            for entry_id, cosine in found
            if entry_id >= 0 and entry_id not in self._removed
        ]
        return live[:k]

    def _take_out(self, ids: set[int]) -> None:
        self._index.remove_ids(faiss.IDSelectorBatch(np.fromiter(ids, dtype=np.int64, count=len(ids))))
        self._known -= ids
        self._removed -= ids
