"""Draws the clusters of an index from the vectors in it, and finds how many of them a search must look into."""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import faiss
import numpy as np
from numpy.typing import NDArray

from ..model import Vector
from .faiss_index import Contents, FaissIndex, Floats
from .frozen import Lists, Rows
from .plan import Plan

_ROUNDS = 8
_MOST_POINTS = 40  # for each centroid, as long as they are not too many in all
_FEWEST_POINTS = 16
_MANY_POINTS = 65_536
_AT_ONCE = 8_192  # rows between two pauses
_QUERIES = 256
_NICENESS = 10
_FEWEST_PROBES = 4  # a vector turned anyhow stays closer to its cluster than one of other words

Pause = Callable[[], None]  # called between pieces of work; what it raises ends the work
Ranks = list[int]


class Drawn(NamedTuple):
    empty: FaissIndex  # with its centroids
    lists: Lists  # where each row falls in it
    ranks: Ranks  # of the list that holds the true nearest, for some queries


def draw_in_no_hurry(contents: Contents, asked: Sequence[Vector], *, plan: Plan, pause: Pause) -> Drawn:
    """On a thread of low priority; the caller keeps its own, since others may wait for the locks it takes."""
    with ThreadPoolExecutor(1, "index training", initializer=_yield_to_others) as thread:
        return thread.submit(draw, contents, asked, plan=plan, pause=pause).result()


def draw(contents: Contents, asked: Sequence[Vector], *, plan: Plan, pause: Pause) -> Drawn:
    """Seconds to minutes of one core; Faiss and numpy let other threads run meanwhile."""
    dice = np.random.default_rng(len(contents.ids))
    clusters = plan.clusters(len(contents.ids))
    centroids = _centroids(contents.vectors, clusters, dice, pause)
    index = FaissIndex(contents.vectors.shape[1], storage=plan.storage, centroids=centroids)
    lists = np.concatenate([index.assign(rows) for rows in _pieces(contents.vectors, pause)])
    queries = _queries(contents.vectors, asked, plan.near, dice)
    ranks = _ranks(queries, contents.vectors, lists, centroids, near=plan.near, pause=pause)
    return Drawn(index, lists, ranks)


def rank(vector: Vector, centroids: Floats, cluster: int) -> int:
    """How many lists a search looks into before this one."""
    nearness = centroids @ vector
    return int(np.count_nonzero(nearness > nearness[cluster]))


def probes_for(ranks: Sequence[int], *, recall: float, most: int) -> int:
    """Lists to look into, so that half of the misses that are allowed remain: the ranks are a sample only."""
    if not ranks or recall == 1:
        return most
    ordered = sorted(ranks)
    wanted = math.ceil((1 + recall) / 2 * len(ordered))
    return min(most, max(_FEWEST_PROBES, ordered[wanted - 1] + 1))


def _yield_to_others() -> None:
    if sys.platform == "linux":  # where threads have a priority of their own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


def _centroids(vectors: Rows, clusters: int, dice: np.random.Generator, pause: Pause) -> Floats:
    points = max(_FEWEST_POINTS * clusters, min(_MOST_POINTS * clusters, _MANY_POINTS))
    picked = dice.choice(len(vectors), min(points, len(vectors)), replace=False)
    sample = np.ascontiguousarray(vectors[np.sort(picked)], dtype=np.float32)
    centroids: Floats = sample[dice.choice(len(sample), clusters, replace=False)]
    faiss.omp_set_num_threads(1)
    for _ in range(_ROUNDS):
        pause()
        rounds = faiss.ClusteringParameters()
        rounds.niter, rounds.spherical, rounds.min_points_per_centroid = 1, True, 1
        clustering = faiss.Clustering(sample.shape[1], clusters, rounds)
        faiss.copy_array_to_vector(np.ascontiguousarray(centroids).ravel(), clustering.centroids)
        clustering.train(sample, faiss.IndexFlatIP(sample.shape[1]))
        centroids = faiss.vector_to_array(clustering.centroids).reshape(clusters, -1)
    return centroids


def _queries(vectors: Rows, asked: Sequence[Vector], near: float, dice: np.random.Generator) -> Floats:
    """What was asked lately; as far as that does not suffice, stored vectors turned a little."""
    picked = vectors[dice.choice(len(vectors), _QUERIES - len(asked[-_QUERIES:]))].astype(np.float32)
    noise = dice.standard_normal(picked.shape).astype(np.float32)
    noise -= np.sum(noise * picked, axis=1, keepdims=True) * picked
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    cosines = dice.uniform(near, 1.0, (len(picked), 1)).astype(np.float32)
    turned: Floats = cosines * picked + np.sqrt(1 - cosines * cosines) * noise
    return np.concatenate([np.stack(asked[-_QUERIES:]), turned]) if asked else turned


def _ranks(
    queries: Floats, vectors: Rows, lists: Lists, centroids: Floats, *, near: float, pause: Pause
) -> Ranks:
    best = np.full(len(queries), -2.0, dtype=np.float32)
    cluster = np.zeros(len(queries), dtype=np.int32)
    begin = 0
    for rows in _pieces(vectors, pause):
        cosines = queries @ rows.astype(np.float32, copy=False).T
        nearest: NDArray[np.intp] = cosines.argmax(axis=1)
        found = cosines[np.arange(len(queries)), nearest]
        is_better = found > best
        best[is_better] = found[is_better]
        cluster[is_better] = lists[begin + nearest[is_better]]
        begin += len(rows)
    return [
        rank(query, centroids, int(own))
        for query, own, cosine in zip(queries, cluster, best, strict=True)
        if cosine >= near
    ]


def _pieces(rows: Rows, pause: Pause) -> Iterator[Rows]:
    for begin in range(0, len(rows), _AT_ONCE):
        pause()
        yield rows[begin : begin + _AT_ONCE]
