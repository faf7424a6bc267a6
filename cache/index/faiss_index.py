"""Vectors in lists, on Faiss: one list while they are few enough to compare all of them, then one a cluster.

A search looks into the `probes` lists whose centroids are nearest. An index of one list is exact. Removing swaps
the last of a list into the place: it costs a hundredth of a millisecond at any size.
"""

from __future__ import annotations

import math
from hashlib import sha256
from typing import Any, NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from ..model import Vector
from .frozen import Ids, Lists, Rows
from .full_vectors import FullVectorsOfOne
from .neighbours import Neighbours
from .plan import Storage

_METRIC = faiss.METRIC_INNER_PRODUCT  # of unit vectors: the cosine
_COARSE = 4  # so many times as many are looked for among coarse vectors
_NOT_BY_ID, _BY_ID = faiss.DirectMap.NoMap, faiss.DirectMap.Hashtable  # type: ignore[attr-defined]  # made by SWIG
_CLUSTER_BITS = 32  # where Faiss keeps a vector: its list above, its place in the list below

Floats = NDArray[np.float32]


class Contents(NamedTuple):
    """A copy of what is in an index."""

    ids: Ids
    vectors: Rows
    lists: Lists

    def at(self, rows: NDArray[np.intp]) -> Contents:
        return Contents(self.ids[rows], self.vectors[rows], self.lists[rows])


class FaissIndex:
    """`VectorIndex` on Faiss, for one thread at a time; `assign` alone may be called beside it."""

    def __init__(
        self,
        dimension: int,
        *,
        storage: Storage = "float32",
        centroids: Floats | None = None,
        probes: int = 1,
        full: FullVectorsOfOne | None = None,
    ) -> None:
        self.full = (
            full  # where whole vectors are: what is coarse is looked up there, and found by its true cosine
        )
        self.storage: Storage = storage
        self.probes = probes
        self.centroids = np.zeros((1, dimension), dtype=np.float32) if centroids is None else centroids
        self.drawing = sha256(self.centroids.tobytes()).hexdigest()[:8]  # names how the clusters are drawn
        self._quantizer = faiss.IndexFlatIP(dimension)
        self._quantizer.add(self.centroids)
        self._index = _lists_of(self._quantizer, dimension, len(self.centroids), storage)
        self._index.is_trained = True
        self._index.set_direct_map_type(_BY_ID)

    def __repr__(self) -> str:
        return f"FaissIndex({len(self)} vectors, {self.storage}, {self.probes} of {self.clusters} lists)"

    def __len__(self) -> int:
        return int(self._index.ntotal)

    @property
    def dimension(self) -> int:
        return int(self._index.d)

    @property
    def clusters(self) -> int:
        return len(self.centroids)

    def assign(self, vectors: Rows) -> Lists:
        """The list that each falls in."""
        if self.clusters == 1:
            return np.zeros(len(vectors), dtype=np.int32)
        _alone()
        lists: Lists = self._quantizer.assign(_wide(vectors), 1)[:, 0].astype(np.int32)
        return lists

    def add(self, entry_id: int, vector: Vector) -> None:
        self.add_many(np.array([entry_id], dtype=np.int64), vector[np.newaxis])

    def add_many(self, ids: Ids, vectors: Floats, *, lists: Lists | None = None) -> None:
        """Add or replace. The ids differ from each other; `lists` is what `assign` gives."""
        self.remove_many(ids)
        if self.full is not None and not self.full.put(ids, vectors):
            return
        rows = np.ascontiguousarray(vectors, dtype=np.float32)
        places = (self.assign(rows) if lists is None else lists).astype(np.int64)
        self._index.add_core(
            len(ids), faiss.swig_ptr(rows), faiss.swig_ptr(ids), faiss.swig_ptr(places), None
        )

    def fill(self, ids: Ids, vectors: Rows, lists: Lists) -> None:
        """Put everything into an empty index at once, each list to measure: it takes no more room than it needs."""
        order = np.argsort(lists, kind="stable")
        ids, ends = np.ascontiguousarray(ids[order]), np.cumsum(np.bincount(lists, minlength=self.clusters))
        self._index.set_direct_map_type(_NOT_BY_ID)  # made again at the end, from all of them
        begin = 0
        for cluster, end in enumerate(ends.tolist()):
            if end > begin:
                codes = _codes(vectors[order[begin:end]], self.storage)
                own_ids = ids[begin:end]
                self._index.invlists.add_entries(
                    cluster, end - begin, faiss.swig_ptr(own_ids), faiss.swig_ptr(codes)
                )
            begin = end
        self._index.ntotal = len(ids)
        self._index.set_direct_map_type(_BY_ID)

    def remove(self, entry_id: int) -> None:
        self.remove_many(np.array([entry_id], dtype=np.int64))

    def remove_many(self, ids: Ids) -> None:
        """Forget; unknown ids are fine."""
        self._index.remove_ids(ids)
        if self.full is not None:
            self.full.remove(ids)

    def search(self, vector: Vector, k: int) -> Neighbours:
        if not len(self):
            return Neighbours()
        _alone()
        self._index.nprobe = self.probes
        wanted = k if self.full is None else _COARSE * k
        cosines, ids = self._index.search(vector[np.newaxis], min(wanted, len(self)))
        if self.full is None:
            return self._neighbours(ids[0].tolist(), cosines[0].tolist())
        is_there, rows = self.full.rows(ids[0], self.dimension)
        true_cosines = rows @ vector
        best = np.argsort(-true_cosines)[:k]
        return self._neighbours(ids[0][is_there][best].tolist(), true_cosines[best].tolist())

    def search_lists(self, vector: Vector, lists: Lists) -> Neighbours:
        """The nearest one of those lists alone."""
        _alone()
        self._index.nprobe = len(lists)
        to_centroids = np.zeros((1, len(lists)), dtype=np.float32)  # plays no part in the cosines
        cosines, ids = self._index.search_preassigned(
            vector[np.newaxis], 1, lists[np.newaxis].astype(np.int64), to_centroids
        )
        return self._neighbours(ids[0].tolist(), cosines[0].tolist())

    def sizes(self) -> NDArray[np.int64]:
        """Vectors of each cluster."""
        held = self._index.invlists
        return np.fromiter((held.list_size(cluster) for cluster in range(self.clusters)), dtype=np.int64)

    def size_of(self, cluster: int) -> int:
        return int(self._index.invlists.list_size(cluster))

    def ids_of(self, cluster: int) -> list[int]:
        size = self.size_of(cluster) if cluster < self.clusters else 0
        if not size:
            return []
        ids: list[int] = faiss.rev_swig_ptr(self._index.invlists.get_ids(cluster), size).tolist()
        return ids

    def contents_of(self, cluster: int, begin: int, end: int) -> Contents:
        """The rows of a cluster from one place to before another."""
        if begin == end:
            return self.nothing()
        held, size = self._index.invlists, self.size_of(cluster)
        ids = faiss.rev_swig_ptr(held.get_ids(cluster), size)[begin:end].copy()
        codes = faiss.rev_swig_ptr(held.get_codes(cluster), size * self._index.code_size)
        vectors = _vectors(codes.reshape(size, -1)[begin:end], self.storage)
        return Contents(ids, vectors, np.full(end - begin, cluster, dtype=np.int32))

    def nothing(self) -> Contents:
        no_ids, no_lists = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
        no_codes = np.empty((0, self._index.code_size), dtype=np.uint8)
        return Contents(no_ids, _vectors(no_codes, self.storage), no_lists)

    def _neighbours(self, ids: list[int], cosines: list[float]) -> Neighbours:
        found = [(entry_id, cosine) for entry_id, cosine in zip(ids, cosines, strict=True) if entry_id >= 0]
        where = self._index.direct_map
        return Neighbours(
            # Rounding takes the product of a vector with itself a hair beyond 1.
            ((entry_id, max(-1.0, min(1.0, cosine))) for entry_id, cosine in found),
            (where.get(entry_id) >> _CLUSTER_BITS for entry_id, _ in found),
        )


def joined(parts: list[Contents]) -> Contents:
    """The parts one after another. They are let go of on the way: together they may be half of the memory."""
    ids, lists = (np.concatenate([part[at] for part in parts]) for at in (0, 2))
    vectors = np.empty((len(ids), parts[0].vectors.shape[1]), dtype=parts[0].vectors.dtype)
    end = len(ids)
    while parts:
        part = parts.pop()
        vectors[end - len(part.ids) : end] = part.vectors
        end -= len(part.ids)
    return Contents(ids, vectors, lists)


def _lists_of(quantizer: Any, dimension: int, clusters: int, storage: Storage) -> Any:
    if storage == "float32":
        return faiss.IndexIVFFlat(quantizer, dimension, clusters, _METRIC)
    kind = faiss.ScalarQuantizer.QT_fp16 if storage == "float16" else faiss.ScalarQuantizer.QT_8bit_uniform
    index = faiss.IndexIVFScalarQuantizer(quantizer, dimension, clusters, kind, _METRIC, False)
    if storage == "int8":
        widest = _widest(dimension)
        faiss.copy_array_to_vector(np.array([-widest, 2 * widest], dtype=np.float32), index.sq.trained)
    return index


def _widest(dimension: int) -> float:
    """Eight bits tell numbers up to this: six times as large as they are on average in a unit vector."""
    return min(1.0, 6 / math.sqrt(dimension))


def _codes(vectors: Rows, storage: Storage) -> NDArray[np.uint8]:
    if storage == "int8":
        widest = np.float32(_widest(vectors.shape[1]))
        steps = (_wide(vectors) + widest) / (2 * widest) * 255
        codes: NDArray[np.uint8] = np.clip(steps, 0, 255).astype(np.uint8)
        return codes
    kind = np.float32 if storage == "float32" else np.float16
    return np.ascontiguousarray(vectors, dtype=kind).view(np.uint8)


def _vectors(codes: NDArray[np.uint8], storage: Storage) -> Rows:
    """A copy. Of coarse vectors it is what they are taken for, and would be coded the same again."""
    if storage == "int8":
        widest = np.float32(_widest(codes.shape[1]))
        return ((codes.astype(np.float32) + np.float32(0.5)) / 255 * (2 * widest) - widest).astype(np.float16)
    copied = codes.copy()
    return copied.view(np.float32) if storage == "float32" else copied.view(np.float16)


def _wide(vectors: Rows) -> Floats:
    return np.ascontiguousarray(vectors, dtype=np.float32)


def _alone() -> None:
    """For the calling thread only, which is why it is said each time. Two threads for one query are slower than
    one, and then spin for milliseconds on cores that others need."""
    faiss.omp_set_num_threads(1)
