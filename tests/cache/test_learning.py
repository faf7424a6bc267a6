"""The learned score: from audits to weights, the same everywhere, and not fooled by few of them."""

from __future__ import annotations

import time

import numpy as np
import pytest

from cache.acceptance import WIDTH, Around, Features
from cache.acceptance.features import around, by_name
from cache.evidence.learning import Weights, borrowed, chance, draws, learn, prior, score

TRUE = np.array([2.0, 1.0, 0.8, 0.0, 0.5, 0.3])


def audits(count: int, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    rows = np.column_stack([np.ones(count), draw.standard_normal((count, WIDTH - 1))])
    return rows, draw.random(count) < chance(rows @ TRUE)


def test_before_any_audit_only_the_cosine_counts() -> None:
    start = prior(WIDTH)
    assert start.mean == (1.0, 1.2, 0.0, 0.0, 0.0, 0.0)
    assert learn(np.empty((0, WIDTH)), np.empty(0, dtype=bool), start) == start


def test_weights_come_near_the_truth() -> None:
    rows, is_right = audits(6_000)
    weights = learn(rows, is_right, prior(WIDTH), most_audits=6_000)
    assert np.abs(np.array(weights.mean) - TRUE).max() < 0.25
    assert weights.audits == 4_200


def test_only_the_latest_audits_count() -> None:
    rows, is_right = audits(400)
    latest = learn(rows[-200:], is_right[-200:], prior(WIDTH), most_audits=100)
    assert learn(rows, is_right, prior(WIDTH), most_audits=100) == latest


def test_what_scores_low_says_nothing_of_what_scores_high() -> None:
    """Here four of five low ones are right whatever they score, and nearly all high ones: one slope would not do."""
    draw = np.random.default_rng(0)
    rows = np.zeros((1_400, WIDTH))
    rows[:, 0], rows[:, 1] = 1.0, np.concatenate([draw.uniform(-4, 0, 400), draw.uniform(0, 1, 1_000)])
    is_right = draw.random(1_400) < np.where(rows[:, 1] > 0, 0.98, 0.80)
    order = draw.permutation(1_400)
    weights = learn(rows[order], is_right[order], prior(WIDTH))
    predicted = chance(rows[400:] @ np.array(weights.mean)).mean()
    assert predicted == pytest.approx(is_right[400:].mean(), abs=0.005)


@pytest.mark.parametrize("is_right", [True, False])
def test_audits_that_all_say_the_same_keep_the_weights_finite(is_right: bool) -> None:
    rows, _ = audits(500)
    weights = learn(rows, np.full(500, is_right), prior(WIDTH))
    assert np.isfinite(weights.mean).all()
    assert bool(chance(rows @ np.array(weights.mean)).mean() > 0.9) is is_right


def test_rows_that_are_all_alike_are_survived() -> None:
    rows = np.ones((50, WIDTH))
    assert np.isfinite(learn(rows, np.arange(50) % 2 == 0, prior(WIDTH)).mean).all()


def test_equal_evidence_gives_equal_draws_and_more_of_it_narrower_ones() -> None:
    few, many = (learn(*audits(count), prior(WIDTH), most_audits=count) for count in (50, 5_000))
    assert (draws(few, 64) == draws(few, 64)).all()
    assert (draws(many, 256).std(axis=0) < draws(few, 256).std(axis=0)).all()


def lender() -> Weights:
    return learn(*audits(1_000), prior(WIDTH))


def test_a_borrowed_prior_says_so_and_gives_way_to_own_evidence() -> None:
    rows, is_right = audits(300, seed=1)
    own = learn(rows, ~is_right, borrowed(lender(), own_audits=300))
    assert own.is_borrowed
    assert score((1.0, 1.0, 0, 0, 0, 0), own.mean) < score((1.0, 1.0, 0, 0, 0, 0), lender().mean) - 1


@pytest.mark.parametrize("own_audits", [0, 350, 5_000])
def test_nothing_is_borrowed_by_whom_has_no_audits_or_enough(own_audits: int) -> None:
    assert borrowed(lender(), own_audits=own_audits) == prior(WIDTH)


def test_what_is_borrowed_counts_for_no_more_than_one_has_nor_than_a_quarter_of_what_it_was() -> None:
    def certainty(weights: Weights) -> float:
        return float(np.trace(np.array(weights.precision)) - np.trace(np.array(prior(WIDTH).precision)))

    whole = certainty(lender())
    lent = {count: certainty(borrowed(lender(), own_audits=count)) for count in (20, 100, 175, 300)}
    assert lent[20] == pytest.approx(whole * 20 / 700)
    assert lent[175] == pytest.approx(whole / 4)
    assert lent[20] < lent[100] < lent[175] > lent[300]


def test_learning_takes_no_longer_than_a_few_milliseconds() -> None:
    rows, is_right = audits(6_000)
    took = []
    for _ in range(5):
        started = time.thread_time()
        learn(rows, is_right, prior(WIDTH))
        took.append(time.thread_time() - started)
    assert min(took) < 0.02  # 1 to 3 ms alone; the machine may be shared


def test_what_else_is_near_is_counted_by_the_answer_it_leads_to() -> None:
    beside = around(0, answers=[7, 7, 9, 7], cosines=[0.95, 0.93, 0.9, 0.85])
    assert beside == Around(support=2, rival=0.9)
    assert around(0, answers=[7], cosines=[0.95]) == Around()


def test_features_come_back_from_their_names() -> None:
    found = Features(0.93, 0.7, 0.4, Around(3, 0.88))
    assert by_name(found.by_name()) == found
    assert len(found.row()) == WIDTH


def test_weights_can_be_compared_and_shown() -> None:
    assert prior(WIDTH) == Weights(prior(WIDTH).mean, prior(WIDTH).precision)
