"""Down to which score answers are served: never where the evidence does not carry it."""

from __future__ import annotations

import numpy as np

from cache.acceptance import WIDTH
from cache.evidence.bound import Bound, lowest_score
from cache.evidence.learning import chance, learn, prior

TRUE = np.array([3.0, 1.5, 1.0, 0.0, 0.0, 0.0])


def found(audits: int, *, budget: float, is_right: np.ndarray | None = None, seed: int = 0) -> Bound | None:
    draw = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(audits), draw.standard_normal((audits, WIDTH - 1))])
    right = draw.random(audits) < chance(rows @ TRUE) if is_right is None else is_right
    return lowest_score(
        learn(rows, right, prior(WIDTH)), traffic=rows, audited=rows, is_right=right, budget=budget
    )


def test_a_wider_budget_serves_lower_scores() -> None:
    tight, wide = found(1_000, budget=0.02), found(1_000, budget=0.1)
    assert tight is not None
    assert wide is not None
    assert wide.score < tight.score
    assert wide.traffic > tight.traffic


def test_both_bounds_hold_under_the_budget() -> None:
    bound = found(1_000, budget=0.05)
    assert bound is not None
    assert bound.predicted <= 0.05
    assert bound.audited <= 0.9 * 0.05


def test_few_audits_serve_less_than_many() -> None:
    few, many = found(40, budget=0.02), found(1_000, budget=0.02)
    assert many is not None
    assert few is None or few.traffic < many.traffic


def test_without_traffic_there_is_nothing_to_bound() -> None:
    nothing = np.empty((0, WIDTH))
    right = np.empty(0, dtype=bool)
    assert lowest_score(prior(WIDTH), traffic=nothing, audited=nothing, is_right=right, budget=0.05) is None


def test_audits_that_are_all_wrong_serve_nothing() -> None:
    assert found(300, budget=0.05, is_right=np.zeros(300, dtype=bool)) is None


def test_errors_found_among_the_highest_scores_forbid_them_whatever_is_predicted() -> None:
    """The weights may think well of a region where audits find errors: both must agree."""
    rows = np.column_stack([np.ones(200), np.linspace(-3, 3, 200), np.zeros((200, WIDTH - 2))])
    confident = learn(rows, rows[:, 1] > -2.9, prior(WIDTH))
    is_right = np.arange(200) % 5 != 4
    assert lowest_score(confident, traffic=rows, audited=rows, is_right=is_right, budget=0.05) is None


def test_the_truth_above_the_bound_is_within_the_budget() -> None:
    draw = np.random.default_rng(9)
    fresh = np.column_stack([np.ones(20_000), draw.standard_normal((20_000, WIDTH - 1))])
    for seed in range(8):
        draw = np.random.default_rng(seed)
        rows = np.column_stack([np.ones(800), draw.standard_normal((800, WIDTH - 1))])
        right = draw.random(800) < chance(rows @ TRUE)
        weights = learn(rows, right, prior(WIDTH))
        bound = lowest_score(weights, traffic=rows, audited=rows, is_right=right, budget=0.05)
        assert bound is not None
        above = fresh[fresh @ np.array(weights.mean) >= bound.score]
        assert chance(-(above @ TRUE)).mean() <= 0.06
