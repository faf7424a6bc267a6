"""Whole vectors in a temporary file: each index has its own, and a file that fails costs hits and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from cache import FaissIndex
from cache.index.full_vectors import FullVectors, FullVectorsOfOne

IDS = np.arange(5, dtype=np.int64)
ROWS = np.eye(5, 8, dtype=np.float32)


@pytest.fixture
def file() -> Iterator[FullVectors]:
    made = FullVectors()
    yield made
    made.close()


def test_two_indexes_with_the_same_ids_do_not_meet(file: FullVectors) -> None:
    one, other = FullVectorsOfOne(file), FullVectorsOfOne(file)
    assert one.put(IDS, ROWS)
    assert other.put(IDS, -ROWS)
    other.remove(IDS[:2])
    is_there, rows = one.rows(IDS, 8)
    assert is_there.all()
    assert np.array_equal(rows, ROWS)
    is_there, rows = other.rows(IDS, 8)
    assert is_there.tolist() == [False, False, True, True, True]
    assert np.array_equal(rows, -ROWS[2:])


def test_more_are_read_and_removed_than_fit_into_one_command(file: FullVectors) -> None:
    many = FullVectorsOfOne(file)
    ids = np.arange(2_000, dtype=np.int64)
    assert many.put(ids, np.tile(ROWS, (400, 1)))
    assert many.rows(ids, 8)[0].sum() == 2_000
    many.remove(ids[1:])
    assert many.rows(ids, 8)[0].sum() == 1


def test_where_the_file_fails_nothing_is_found_and_it_is_counted(file: FullVectors) -> None:
    index = FaissIndex(8, storage="int8", full=FullVectorsOfOne(file))
    index.add_many(IDS, ROWS)
    assert index.search(ROWS[3], 1)[0][0] == 3
    file.close()  # as good as a full disk
    index.add(9, ROWS[0])
    assert len(index) == 5
    assert index.search(ROWS[3], 1) == []
    assert file.failures >= 2
