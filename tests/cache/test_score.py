"""The policies: what they ask for, and that nothing but a cosine of theirs is ever compared with it."""

from __future__ import annotations

import math

import pytest

from cache import Policy, Verdict
from cache.acceptance import read

NEW = "How do I reset my password?"


def judge(policy: Policy, cosine: float, *, stored: str = NEW, minimum: float | None = None) -> Verdict:
    return policy.judge(read(NEW), stored, cosine, min_similarity=minimum)


@pytest.mark.parametrize(("cosine", "is_accepted"), [(0.9499, False), (0.95, True), (1.0, True)])
def test_guarded_asks_for_095_unless_told_otherwise(cosine: float, is_accepted: bool) -> None:
    assert judge(Policy(), cosine).is_accepted is is_accepted


def test_a_verdict_says_what_it_was_made_of() -> None:
    verdict = judge(Policy("fixed", 0.9), 0.8)
    assert verdict == Verdict(False, "below-threshold", 0.8, 0.9, {"cosine": 0.8})


def test_guarded_names_the_veto() -> None:
    assert judge(Policy(), 0.99, stored="How do I not reset my password?").reason == "veto-negation"


def test_fixed_has_no_vetoes() -> None:
    assert judge(Policy("fixed", 0.82), 0.9, stored="How do I not reset my password?").is_accepted


def test_a_caller_can_ask_for_more() -> None:
    verdict = judge(Policy(), 0.96, minimum=0.97)
    assert (verdict.is_accepted, verdict.threshold) == (False, 0.97)


def test_a_caller_cannot_ask_for_less() -> None:
    verdict = judge(Policy(), 0.9, minimum=0.05)
    assert (verdict.is_accepted, verdict.threshold) == (False, 0.95)


@pytest.mark.parametrize("policy", [Policy(), Policy("fixed", -1.0)])
def test_what_is_not_a_number_is_never_enough(policy: Policy) -> None:
    assert not judge(policy, math.nan).is_accepted
