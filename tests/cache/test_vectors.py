"""Whatever comes from outside becomes a unit vector or nothing."""

from __future__ import annotations

import numpy as np
import pytest

from cache.vectors import UnusableVector, from_bytes, to_bytes, to_unit


@pytest.mark.parametrize("length", [0.1, 1.0, 50.0])
def test_any_length_becomes_one(length: float) -> None:
    vector = to_unit(np.array([3.0, 4.0]) / 5 * length, dimension=2)
    assert vector.dtype == np.float32
    assert vector.tolist() == pytest.approx([0.6, 0.8])


@pytest.mark.parametrize(
    "raw",
    [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0], [], [1.0], [1.0, 0.0, 0.0], [[1.0, 0.0]]],
    ids=str,
)
def test_zero_not_finite_or_of_another_size_is_refused(raw: list[float]) -> None:
    with pytest.raises(UnusableVector):
        to_unit(raw, dimension=2)


def test_a_vector_survives_its_journey() -> None:
    vector = to_unit(np.arange(1, 385), dimension=384)
    assert from_bytes(to_bytes(vector)).tolist() == pytest.approx(vector.tolist(), abs=1e-7)


@pytest.mark.parametrize("data", [b"", b"abc", bytes(16), b"\xff" * 16])
def test_bytes_that_are_no_vector_are_refused(data: bytes) -> None:
    with pytest.raises(UnusableVector):
        from_bytes(data)
