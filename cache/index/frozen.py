"""A space as a plain value: what a snapshot keeps, and what an index is built from again without any training."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]
Lists = NDArray[np.int32]
Rows = NDArray[np.float32] | NDArray[np.float16]  # [n, dimension], in the precision they are compared in


@dataclass(frozen=True, slots=True, eq=False)
class FrozenSpace:
    """`centroids` and `lists` (whose list each row falls in) are None where all rows are compared; then `probes`,
    the lists that a search looks into, is 1. The arrays are the receiver's own: nothing writes to them any more."""

    name: bytes
    ids: Ids  # [n]
    expires_at_s: NDArray[np.float64]  # [n]
    vectors: Rows = field(repr=False)
    centroids: NDArray[np.float32] | None = field(default=None, repr=False)  # [clusters, dimension]
    lists: Lists | None = field(default=None, repr=False)  # [n]
    probes: int = 1

    def __len__(self) -> int:
        return len(self.ids)
