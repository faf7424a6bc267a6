"""What a judge found, corrected for how often it errs: never to the side of serving more than is known."""

from __future__ import annotations

import pytest

from cache.evidence.correction import Correction, JudgeRates, correction_of, of_all

MANY = 100_000  # where an interval is next to nothing


def rates(false_agree: float, false_disagree: float, *, pairs: int = MANY) -> JudgeRates:
    return JudgeRates(pairs, round(false_agree * pairs), pairs, round(false_disagree * pairs))


@pytest.mark.parametrize("true_share", [0.0, 0.02, 0.3, 1.0])
def test_what_a_judge_of_known_rates_finds_leads_back_to_what_is_wrong(true_share: float) -> None:
    correction = correction_of(rates(0.2, 0.1))
    found = true_share * (1 - 0.2) + (1 - true_share) * 0.1
    assert correction.corrected(found) == pytest.approx(true_share, abs=0.005)
    assert correction.bar(0.02).share == pytest.approx(0.02 * 0.8 + 0.98 * 0.1, abs=0.005)


@pytest.mark.parametrize("pairs", [10, 40, 400])
def test_the_less_was_measured_the_more_is_taken_for_wrong(pairs: int) -> None:
    assert correction_of(rates(0.2, 0.1, pairs=pairs)).corrected(0.15) > correction_of(
        rates(0.2, 0.1, pairs=20 * pairs)
    ).corrected(0.15)


def test_a_judge_that_misses_errors_needs_more_audits_to_show_a_budget() -> None:
    assert Correction().bar(0.02) == (0.02, 114)
    assert correction_of(rates(0.5, 0.0)).bar(0.02).audits > 220
    assert correction_of(rates(0.0, 0.1)).bar(0.02).audits >= 114


@pytest.mark.parametrize(
    "measured",
    [
        JudgeRates(0, 0, 0, 0),  # nothing
        JudgeRates(0, 0, 500, 0),  # of wrong answers nothing
        rates(0.95, 0.0),  # always agrees
        rates(0.0, 0.95),  # never does
        rates(0.5, 0.5),  # throws a coin
        rates(0.9, 0.9),  # says the opposite
    ],
)
def test_a_judge_whose_word_depends_too_little_on_the_answers_is_not_usable(measured: JudgeRates) -> None:
    assert not correction_of(measured).is_usable


def test_a_judge_that_nobody_measured_is_taken_at_its_word_and_said_to_be_uncorrected() -> None:
    correction = correction_of(None)
    assert (correction.is_measured, correction.corrected(0.07)) == (False, 0.07)


def test_of_several_judges_the_most_careful_rates_are_taken() -> None:
    known = {"strict": rates(0.0, 0.2), "lenient": rates(0.3, 0.0)}
    both = of_all(["strict", "lenient"], known.get)
    assert both.false_agree == pytest.approx(0.3, abs=0.01)
    assert both.false_disagree == pytest.approx(0.0, abs=0.01)
    assert both.is_measured
    assert not of_all(["strict", "unknown"], known.get).is_measured
    assert of_all(["strict", "unknown"], known.get).false_disagree == 0.0
    assert not of_all([], known.get).is_measured
