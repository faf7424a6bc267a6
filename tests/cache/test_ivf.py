"""Large spaces: clusters drawn behind the path, looked into as far as needed, drawn anew when they no longer fit."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from cache import Plan, Space, Spaces
from cache.identity import tag_of_space
from cache.index.live_index import LiveIndex
from cache.index.plan import Shape, why_rebuild
from cache.index.training import probes_for, rank
from cache.model import Vector

SPACE = bytes(32)
DIMENSION = 32
SMALL = Plan(few=8, flat=300)
Rows = NDArray[np.float32]


def unit(rows: NDArray[np.floating]) -> Rows:
    scaled: Rows = (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)
    return scaled


def topics(count: int, *, seed: int = 1, of: int = 40) -> Rows:
    """Vectors as texts have them: about so many things, and no two the same."""
    dice = np.random.default_rng(seed)
    middles = unit(dice.standard_normal((of, DIMENSION)))
    around = unit(dice.standard_normal((count, DIMENSION)))
    return unit(middles[dice.integers(0, of, count)] + 0.6 * around)


def turned(rows: Rows, *, seed: int = 2) -> Rows:
    """The same said otherwise."""
    return unit(rows + 0.2 * unit(np.random.default_rng(seed).standard_normal(rows.shape)))


@pytest.fixture
def spaces() -> Iterator[Spaces]:
    made = Spaces(SMALL)
    yield made
    made.close()


def filled(spaces: Spaces, rows: Rows, *, first: int = 0) -> Space:
    for number, row in enumerate(rows, first):
        spaces.add(SPACE, number, row, expires_at_s=1e12)
    assert asyncio.run(spaces.settle())
    found = spaces.find(SPACE)
    assert found is not None
    return found


def index_of(space: Space) -> LiveIndex:
    assert space.index is not None
    return space.index


def test_a_few_vectors_have_no_index(spaces: Spaces) -> None:
    assert filled(spaces, topics(8)).index is None


def test_up_to_the_bound_all_vectors_are_compared(spaces: Spaces) -> None:
    space = filled(spaces, topics(300))
    assert index_of(space).clusters == 1
    assert spaces.state().clustered == 0


def test_beyond_it_clusters_are_drawn_and_few_of_them_looked_into(spaces: Spaces) -> None:
    rows = topics(2_000)
    space = filled(spaces, rows)
    index = index_of(space)
    assert index.clusters >= 4 * np.sqrt(300)
    assert index.probes < index.clusters / 4
    found = [space.search(asked)[0][0] for asked in turned(rows)]
    assert np.mean(np.array(found) == np.arange(2_000)) >= 0.99


def test_nothing_is_lost_or_comes_back_while_clusters_are_drawn(spaces: Spaces) -> None:
    """Searches and changes go on all the while, on other threads than the one that draws."""
    rows = topics(6_000)
    space = filled(spaces, rows[:250])
    for number in range(250, 6_000):
        spaces.add(SPACE, number, rows[number], expires_at_s=1e12)
        if number % 3 == 0:
            spaces.remove(SPACE, number - 100)
        if number % 25 == 0:
            assert space.search(rows[number])[0][0] == number
    assert asyncio.run(spaces.settle())
    assert spaces.state().rebuilds >= 1
    frozen = space.freeze()
    assert sorted(frozen.ids.tolist()) == sorted(space.ids)
    assert len(index_of(space).copy()[0].ids) == len(space.ids)
    assert all(np.array_equal(frozen.vectors[at], rows[number]) for at, number in enumerate(frozen.ids))


def test_the_cluster_of_each_neighbour_is_told(spaces: Spaces) -> None:
    rows = topics(1_000)
    space = filled(spaces, rows)
    frozen = space.freeze()
    assert frozen.lists is not None
    where = dict(zip(frozen.ids.tolist(), frozen.lists.tolist(), strict=True))
    for asked in turned(rows[:50]):
        found = space.search(asked)
        assert found.clusters == [where[entry_id] for entry_id, _ in found]
    told = spaces.clusters(tag_of_space(SPACE), most=1_000)
    sizes = {each.number: each.size for each in told}
    assert [sizes[number] for number in sorted(sizes)] == np.bincount(
        frozen.lists, minlength=len(sizes)
    ).tolist()
    assert sum(sizes.values()) == 1_000
    for each in told:
        drawing, ids = spaces.ids_of(SPACE, each.number)
        assert (drawing, {where[entry_id] for entry_id in ids}) == (each.drawing, {each.number})
        assert len(ids) == each.size


def test_what_came_of_searches_is_told_of_the_clusters_until_they_are_drawn_anew(spaces: Spaces) -> None:
    rows = topics(1_000)
    space = filled(spaces, rows)
    near = space.search(rows[0])
    for is_hit in (True, False):
        spaces.note_search(SPACE, near, is_hit=is_hit)
    told = {each.number: each for each in spaces.clusters(tag_of_space(SPACE), most=1_000)}
    seen = told.pop(near.clusters[0])
    assert (seen.searches, seen.hits) == (2, 1)
    assert seen.similarity == pytest.approx(near[0][1])
    assert {each.searches for each in told.values()} == {0}
    assert len(spaces.clusters(tag_of_space(SPACE), most=3)) == 3
    assert spaces.clusters(b"anothers", most=3) == []


def test_a_thawed_index_needs_no_training_and_answers_the_same(spaces: Spaces) -> None:
    rows = topics(1_000)
    space = filled(spaces, rows)
    again = Spaces(SMALL)
    again.thaw(space.freeze())
    assert asyncio.run(again.settle())
    thawed = again.find(SPACE)
    assert thawed is not None
    asked = turned(rows)
    assert [thawed.search(each) for each in asked] == [space.search(each) for each in asked]
    assert again.state().rebuilds == 0
    assert index_of(thawed).probes == index_of(space).probes
    again.close()


def test_what_was_frozen_can_be_frozen_again_before_it_is_built() -> None:
    spaces = Spaces(SMALL)
    space = filled(spaces, topics(1_000))
    again = Spaces(SMALL)
    again.thaw(space.freeze())
    (thawed,) = again
    assert sorted(thawed.freeze().ids.tolist()) == list(range(1_000))
    for each in (spaces, again):
        each.close()


def test_grown_fourfold_the_clusters_are_drawn_anew(spaces: Spaces) -> None:
    rows = topics(4_000)
    space = filled(spaces, rows[:400])
    before = index_of(space).clusters
    filled(spaces, rows[400:1_500], first=400)
    assert index_of(space).clusters == before
    filled(spaces, rows[1_500:], first=1_500)
    assert index_of(space).clusters > before
    assert spaces.state().rebuilds >= 2


def test_clusters_that_no_longer_fit_what_is_asked_are_drawn_anew(spaces: Spaces) -> None:
    """The same number of vectors, about other things: searches find less, and that is seen by trying some of them."""
    space = filled(spaces, topics(1_000))
    drawn_once = spaces.state().rebuilds
    others = topics(1_000, seed=5, of=3)
    for number in range(1_000):
        spaces.remove(SPACE, number)
        spaces.add(SPACE, 1_000 + number, others[number], expires_at_s=1e12)
    assert asyncio.run(spaces.settle())
    for asked in turned(others):
        space.search(asked)
    assert asyncio.run(spaces.settle())
    assert spaces.state().rebuilds > drawn_once


def test_true_neighbours_are_looked_for_now_and_then(spaces: Spaces) -> None:
    rows = topics(1_000)
    space = filled(spaces, rows)
    index = index_of(space)
    before = len(index.ranks)
    space.search(rows[3])
    assert asyncio.run(spaces.settle())
    after = index.ranks
    assert (len(after), after[-1]) == (before + 1, 0)
    recall = spaces.state().recall
    assert recall is not None
    assert recall >= SMALL.recall


def test_the_thread_ends_with_its_owner() -> None:
    others = set(threading.enumerate())
    spaces = Spaces(SMALL)
    for number, row in enumerate(topics(3_000)):
        spaces.add(SPACE, number, row, expires_at_s=1e12)
    spaces.close()
    assert "index upkeep" not in {thread.name for thread in set(threading.enumerate()) - others}


def test_the_rank_of_a_cluster_is_how_many_are_looked_into_before() -> None:
    centroids = np.eye(4, dtype=np.float32)
    asked: Vector = unit(np.array([4.0, 3.0, 2.0, 1.0]))
    assert [rank(asked, centroids, cluster) for cluster in range(4)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("ranks", "most", "expected"),
    [
        ([0] * 100, 50, 4),
        ([0] * 100, 2, 2),
        ([0] * 98 + [3, 9], 50, 10),  # a hundred tell little of one in a hundred
        ([5] * 996 + [9, 19, 19, 19], 50, 6),  # of a thousand so many may be missed
        ([0] * 50 + [20] * 50, 8, 8),
        ([], 8, 8),
    ],
)
def test_as_many_clusters_are_looked_into_as_recall_needs(ranks: list[int], most: int, expected: int) -> None:
    assert probes_for(ranks, recall=0.99, most=most) == expected


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        (Shape(300, 1), None),
        (Shape(301, 1), "size"),
        (Shape(4_000, 80, added=3_000, built_with=1_000), None),
        (Shape(4_001, 80, added=3_001, built_with=1_000), "growth"),
        (Shape(1_000, 80, 100, 1_000, unevenness=3.1, first_unevenness=1.5), "unevenness"),
        (
            Shape(1_000, 80, 99, 1_000, unevenness=3.1, first_unevenness=1.5),
            None,
        ),  # nothing new to learn from
        (Shape(1_000, 80, 100, 1_000, is_short_of_recall=True), "recall"),
        (Shape(1_000, 80, 99, 1_000, is_short_of_recall=True), None),
    ],
)
def test_why_clusters_are_drawn(shape: Shape, reason: str | None) -> None:
    assert why_rebuild(SMALL, shape) == reason
