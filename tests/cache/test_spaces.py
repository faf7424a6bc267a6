"""The indexes of a process: bounded in all, in the order of use, and only for what was written."""

from __future__ import annotations

import numpy as np
import pytest

from cache import FaissIndex, Spaces
from cache.model import Vector
from cache.testing import DictIndex

A, B, C = (bytes([n]) * 32 for n in (1, 2, 3))


def vector(number: int) -> Vector:
    unit: Vector = np.eye(8, dtype=np.float32)[number % 8]
    return unit


def ids(spaces: Spaces, space: bytes) -> list[int]:
    found = spaces.find(space)
    return [] if found is None else sorted(entry_id for entry_id, _ in found.search(vector(0)))


@pytest.fixture
def spaces() -> Spaces:
    return Spaces(DictIndex, most_vectors=4)


def test_a_space_never_written_is_absent(spaces: Spaces) -> None:
    assert spaces.find(A) is None


def test_spaces_do_not_see_each_other(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.add(B, 2, vector(1))
    assert (ids(spaces, A), ids(spaces, B)) == ([1], [2])


def test_adding_what_is_known_changes_nothing(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.add(A, 1, vector(1))
    assert len(spaces) == 1


def test_an_emptied_space_is_gone(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.remove(A, 1)
    spaces.remove(A, 1)
    assert spaces.find(A) is None
    assert len(spaces) == 0


def test_changes_show_in_the_next_search(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.add(A, 2, vector(2))
    assert ids(spaces, A) == [1, 2]
    spaces.remove(A, 1)
    spaces.add(A, 3, vector(3))
    assert ids(spaces, A) == [2, 3]


def test_over_the_bound_the_space_unused_for_longest_goes(spaces: Spaces) -> None:
    for number in (1, 2):
        spaces.add(A, number, vector(number))
        spaces.add(B, number, vector(number))
    spaces.find(A)
    spaces.add(C, 1, vector(1))
    assert (ids(spaces, A), ids(spaces, B), ids(spaces, C)) == ([1, 2], [], [1])
    assert len(spaces) == 3


def test_a_lone_space_over_the_bound_lets_its_oldest_go(spaces: Spaces) -> None:
    for number in range(6):
        spaces.add(A, number, vector(number))
    assert ids(spaces, A) == [2, 3, 4, 5]
    assert len(spaces) == 4


def test_a_space_written_to_and_never_searched_does_not_grow_without_end(spaces: Spaces) -> None:
    for number in range(1000):
        spaces.add(A, number, vector(number))
        found = spaces.find(A)
        assert found is None or found.unseen <= 10


def test_a_namespace_is_dropped_by_the_tag_its_spaces_begin_with(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.add(B, 2, vector(2))
    spaces.drop_namespace(A[:8])
    assert (ids(spaces, A), ids(spaces, B), len(spaces)) == ([], [2], 1)


def test_an_entry_can_be_removed_by_its_namespace_alone(spaces: Spaces) -> None:
    spaces.add(A, 1, vector(1))
    spaces.add(B, 1, vector(1))
    spaces.remove_from_namespace(A[:8], 1)
    assert (ids(spaces, A), ids(spaces, B)) == ([], [1])


def test_marked_removals_are_swept_in_the_end() -> None:
    index = FaissIndex(8)
    for number in range(200):
        index.add(number, vector(number))
    for number in range(150):
        index.remove(number)
    assert len(index) == 50
    assert "20 to be swept" in repr(index)  # 65 were taken out at once, twice
    assert {entry_id for entry_id, _ in index.search(vector(0), 200)} == set(range(150, 200))
