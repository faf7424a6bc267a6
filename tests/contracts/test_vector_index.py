"""What every vector index promises: our own ids, cosines that can be recomputed, and removal that removes."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from cache import FaissIndex, VectorIndex
from cache.index.full_vectors import FullVectors, FullVectorsOfOne
from cache.index.plan import Storage
from cache.model import Vector
from cache.testing import DictIndex
from cache.vectors import to_unit

DIMENSION = 384
CLOSE = 1e-4  # for vectors of half precision; whole ones are ten times as close


def vector(seed: int) -> Vector:
    return to_unit(np.random.default_rng(seed).standard_normal(DIMENSION), dimension=DIMENSION)


def whole() -> FullVectorsOfOne:
    """Two indexes share a file without meeting in it."""
    file = FullVectors()
    other = FullVectorsOfOne(file)
    other.put(np.arange(200, dtype=np.int64), np.stack([vector(7)] * 200))
    return FullVectorsOfOne(file)


def clustered(storage: Storage) -> FaissIndex:
    """A search looks into all clusters, so it must find what one without clusters finds."""
    centroids = np.stack([vector(100_000 + number) for number in range(6)])
    full = whole() if storage == "int8" else None
    return FaissIndex(DIMENSION, storage=storage, centroids=centroids, probes=6, full=full)


IMPLEMENTATIONS: dict[str, Callable[[], VectorIndex]] = {
    "float32": lambda: FaissIndex(DIMENSION),
    "float16": lambda: FaissIndex(DIMENSION, storage="float16"),
    "clusters, float32": lambda: clustered("float32"),
    "clusters, float16": lambda: clustered("float16"),
    "int8": lambda: FaissIndex(DIMENSION, storage="int8", full=whole()),
    "clusters, int8": lambda: clustered("int8"),
    "dict": lambda: DictIndex(DIMENSION),
}


@pytest.fixture(params=IMPLEMENTATIONS)
def index(request: pytest.FixtureRequest) -> VectorIndex:
    return IMPLEMENTATIONS[request.param]()


def nearest(index: VectorIndex, asked: Vector) -> tuple[int, float]:
    """The nearest id, and its cosine as far as it is promised."""
    entry_id, cosine = index.search(asked, 8)[0]
    return entry_id, round(cosine, 3)


def test_an_empty_index_finds_nothing(index: VectorIndex) -> None:
    assert index.search(vector(1), 8) == []
    assert len(index) == 0


def test_the_nearest_come_first_with_their_cosines(index: VectorIndex) -> None:
    for number in range(50):
        index.add(number, vector(number))
    asked = vector(1000)
    expected = sorted(((float(vector(n) @ asked), n) for n in range(50)), reverse=True)[:8]
    found = index.search(asked, 8)
    assert [entry_id for entry_id, _ in found] == [n for _, n in expected]
    assert [cosine for _, cosine in found] == pytest.approx([cosine for cosine, _ in expected], abs=CLOSE)


def test_the_number_is_a_cosine_and_not_a_distance(index: VectorIndex) -> None:
    along, across = np.eye(DIMENSION, dtype=np.float32)[:2]
    index.add(1, along)
    assert nearest(index, along) == (1, 1.0)
    assert nearest(index, across) == (1, 0.0)
    assert nearest(index, -along) == (1, -1.0)
    assert nearest(index, (along + across) / np.float32(np.sqrt(2))) == (1, 0.707)


def test_ids_are_kept_whole(index: VectorIndex) -> None:
    greatest = 2**63 - 1
    index.add(greatest, vector(1))
    assert index.search(vector(1), 1)[0][0] == greatest


def test_removing_one_leaves_the_others_their_ids(index: VectorIndex) -> None:
    for number in range(10):
        index.add(number, vector(number))
    index.remove(2)
    assert [index.search(vector(n), 1)[0][0] for n in range(10) if n != 2] == [0, 1, 3, 4, 5, 6, 7, 8, 9]
    assert index.search(vector(2), 1)[0][0] != 2
    assert len(index) == 9


def test_removing_the_unknown_is_fine(index: VectorIndex) -> None:
    index.remove(5)
    assert len(index) == 0


def test_adding_again_replaces(index: VectorIndex) -> None:
    index.add(1, vector(1))
    index.add(1, vector(2))
    assert len(index) == 1
    assert nearest(index, vector(2)) == (1, 1.0)


def test_a_removed_id_can_come_back_the_same_or_another(index: VectorIndex) -> None:
    index.add(1, vector(1))
    index.add(2, vector(2))
    index.remove(1)
    index.remove(2)
    index.add(1, vector(1))
    index.add(2, vector(3))
    assert len(index) == 2
    assert nearest(index, vector(1)) == (1, 1.0)
    assert nearest(index, vector(3)) == (2, 1.0)


def test_it_agrees_with_a_dict_through_a_thousand_random_changes(index: VectorIndex) -> None:
    dice = random.Random(7)
    model: dict[int, Vector] = {}
    for step in range(1000):
        entry_id = dice.randrange(120)
        if dice.random() < 0.45:
            index.remove(entry_id)
            model.pop(entry_id, None)
        else:
            model[entry_id] = vector(step)
            index.add(entry_id, model[entry_id])
        assert len(index) == len(model)
        if step % 10 == 0:
            asked = vector(10_000 + step)
            found = index.search(asked, 8)
            best = sorted((float(v @ asked) for v in model.values()), reverse=True)[:8]
            assert [cosine for _, cosine in found] == pytest.approx(best, abs=CLOSE)
            for found_id, cosine in found:
                assert cosine == pytest.approx(float(model[found_id] @ asked), abs=CLOSE)
