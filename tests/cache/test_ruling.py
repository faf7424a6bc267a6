"""What is served by the rules, the standing and past offences; what is only withheld counts as a would-be hit."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from cache import Question, Rules, Verdict
from cache.acceptance import ALONE, read
from cache.evidence import WITHHELD, Ruling
from cache.evidence.learning import Weights
from cache.evidence.ledger import Standing
from tests.cache.parts import asked, entry_for

NEW, STORED = "How do I reset my password?", "How can I reset my password?"
ENTRY = entry_for(asked(STORED), at_s=100.0)
WEIGHTS = Weights((2.0, 1.0, 0.0, 0.0, 0.0, 0.0), ())


def judged(ruling: Ruling, cosine: float = 0.97, *, question: Question | None = None) -> Verdict:
    question = question or asked(NEW)
    return ruling.judge(read(question.text), ENTRY, cosine, question=question, question_id=5)


def learned(state: str = "on", *, least: float | None = 1.0, is_strict: bool = False) -> Ruling:
    ruling = Ruling(Rules("learned", is_strict=is_strict))
    weights = WEIGHTS if least is not None else None
    ruling.standing = Standing(state=state, weights=weights, least_score=least)  # type: ignore[arg-type]  # a state
    return ruling


def test_guarded_serves_at_its_threshold() -> None:
    assert judged(Ruling(Rules())).is_accepted
    assert judged(Ruling(Rules()), 0.94).reason == "below-threshold"


@pytest.mark.parametrize("policy", ["guarded", "fixed"])
def test_what_is_tripped_is_withheld(policy: str) -> None:
    ruling = Ruling(Rules(policy))
    ruling.standing = Standing(state="tripped")
    assert judged(ruling).reason == "tripped"
    assert judged(ruling, 0.94).reason == "below-threshold"  # it would not have been served anyway


def test_in_shadow_nothing_is_served() -> None:
    assert judged(Ruling(Rules()), question=replace(asked(NEW), is_shadow=True)).reason == "shadow"


def test_a_blocked_pair_is_refused_and_others_are_not() -> None:
    ruling = Ruling(Rules())
    ruling.blocked.add(5, ENTRY.entry_id)
    assert judged(ruling).reason == "blocked"
    assert "blocked" not in WITHHELD
    assert ruling.judge(read(NEW), ENTRY, 0.97, question=asked(NEW), question_id=6).is_accepted


def test_an_entry_that_was_wrong_is_served_above_that_only_until_its_answer_is_newer() -> None:
    ruling = Ruling(Rules())
    ruling.raised = {ENTRY.entry_id: (0.97, 200.0)}
    assert judged(ruling, 0.97).reason == "raised"
    assert judged(ruling, 0.98).is_accepted
    ruling.raised = {ENTRY.entry_id: (0.97, 50.0)}
    assert judged(ruling, 0.97).is_accepted


def test_a_learned_score_serves_down_to_its_least() -> None:
    assert judged(learned(), 0.86).is_accepted
    assert judged(learned(), 0.84).reason == "below-score"
    assert judged(learned(), 0.69).reason == "below-threshold"


def test_a_learned_score_has_vetoes_too() -> None:
    question = asked("How do I not reset my password?")
    assert judged(learned(), 0.97, question=question).reason == "veto-negation"


def test_a_callers_minimum_is_added_to_a_learned_score() -> None:
    assert (
        judged(learned(), 0.97, question=replace(asked(NEW), min_similarity=0.98)).reason == "below-threshold"
    )


def test_while_it_learns_it_serves_what_guarded_would_or_nothing_if_strict() -> None:
    assert judged(learned("learning", least=None)).is_accepted
    assert judged(learned("learning", least=None), 0.94).reason == "below-threshold"
    assert judged(learned("learning", least=None, is_strict=True)).reason == "learning"


def test_a_verdict_says_what_it_went_by() -> None:
    verdict = judged(learned(), 0.97)
    assert {"cosine", "shared", "unmatched", "score", "least_score"} <= verdict.features.keys()


def test_what_is_around_a_neighbour_goes_by_whose_answer_each_belongs_to() -> None:
    ruling = Ruling(Rules("learned"))
    ruling.aliases = {2: 1}
    first, second, third = ruling.around([(1, 0.95), (2, 0.93), (3, 0.90), (4, 0.60)])
    assert (first.support, second.support, third.support) == (1, 1, 0)
    assert (first.rival, third.rival) == (0.90, 0.95)


def test_a_farther_neighbour_is_looked_at_only_if_it_could_be_better() -> None:
    ruling = learned()
    verdict = judged(ruling, 0.95)
    assert ruling.can_beat(verdict, 0.96, ALONE)
    assert not ruling.can_beat(verdict, 0.94, ALONE)
    assert not Ruling(Rules()).can_beat(judged(Ruling(Rules())), 0.99, ALONE)
