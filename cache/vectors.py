"""Decides what a valid vector is, and how one travels: float32, finite, of the right size, of unit length.

Embedders and the store are outside; whatever comes from them passes here once. Inside, the inner product of
two vectors is their cosine.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .model import Vector

_LEAST_LENGTH = 1e-6


class UnusableVector(ValueError):
    """Zero, not finite, or of another size."""


def to_unit(raw: ArrayLike, *, dimension: int) -> Vector:
    vector = np.asarray(raw, dtype=np.float32)
    if vector.shape != (dimension,):
        raise UnusableVector(f"a vector of shape {vector.shape} where ({dimension},) was expected")
    with np.errstate(over="ignore", invalid="ignore"):  # too large a one is refused below
        length = float(np.sqrt(np.dot(vector, vector)))
    # A NaN or an infinity anywhere makes the length one; NaN compares false, so it is refused here too.
    if not _LEAST_LENGTH < length < float("inf"):
        raise UnusableVector(f"a vector of length {length}")
    return vector / np.float32(length)


def to_bytes(vector: Vector) -> bytes:
    return vector.astype("<f4").tobytes()


def from_bytes(data: bytes) -> Vector:
    """Raises `UnusableVector` for what cannot have been written by `to_bytes`."""
    if not data or len(data) % 4:
        raise UnusableVector(f"{len(data)} bytes are no vector")
    return to_unit(np.frombuffer(data, dtype="<f4"), dimension=len(data) // 4)
