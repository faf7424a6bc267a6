"""Decides how the vectors of a space are kept, and when its index is to be built anew. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from .frozen import Rows

Storage = Literal["float32", "float16", "int8"]

_BYTES = {"float32": 4, "float16": 2, "int8": 1}
_BESIDE = 200  # bytes that a vector costs beside itself: its id and its time, twice in a hash table
_BESIDE_FEW = 300  # and as an object of its own
_CHURN = 10  # what was tried is not tried again before one in so many vectors is new


@dataclass(frozen=True, slots=True)
class Plan:
    """`few`: up to so many vectors are kept as they are, without an index. `flat`: up to so many are all compared.

    `recall` is the share of searches that find the true nearest, among those whose nearest has a cosine of at least
    `near`: what is less near is never accepted, so missing it costs nothing.
    """

    storage: Storage = "float32"
    few: int = 64
    flat: int = 20_000
    recall: float = 0.99
    near: float = 0.85
    growth: int = 4
    unevenness: float = 2.0

    def few_kept_as(self, vectors: Rows) -> Rows:
        return vectors.astype(np.float32) if self.storage == "float32" else vectors.astype(np.float16)

    def bytes_of(self, dimension: int, *, is_few: bool) -> int:
        """What one more vector costs in memory."""
        if is_few:
            return dimension * (4 if self.storage == "float32" else 2) + _BESIDE_FEW
        return dimension * _BYTES[self.storage] + _BESIDE

    def clusters(self, vectors: int) -> int:
        return max(2, round(4 * math.sqrt(vectors)))

    def most_probes(self, clusters: int) -> int:
        """Beyond a quarter of the lists it is better to draw the lists anew. A recall of 1 only all of them give."""
        return clusters if self.recall == 1 else min(clusters, max(8, clusters // 4))


@dataclass(frozen=True, slots=True)
class Shape:
    """What an index looks like now. The unevenness of lists is 1 where all are of one size, and grows."""

    vectors: int
    clusters: int
    added: int = 0  # since it was built
    built_with: int = 0
    unevenness: float = 1.0
    first_unevenness: float = 1.0
    is_short_of_recall: bool = False


def why_rebuild(plan: Plan, shape: Shape) -> str | None:
    """A machine word, or None where the index is right as it is."""
    if shape.clusters == 1:
        return "size" if shape.vectors > plan.flat else None
    if shape.vectors > plan.growth * shape.built_with:
        return "growth"
    if shape.added * _CHURN < shape.vectors:
        return None
    if shape.unevenness > plan.unevenness * shape.first_unevenness:
        return "unevenness"
    return "recall" if shape.is_short_of_recall else None
