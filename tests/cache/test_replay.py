"""A labelled stream, played: what the policies serve, and what evidence does to them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cache import Course, Rules, Stream, replay
from cache.testing import HashEmbedder

TOPICS = ("card lost abroad", "pin forgotten yesterday", "rate exchange euro", "limit raise monthly")


@pytest.fixture(scope="module")
def stream() -> Stream:
    """Questions on four matters, in many wordings that share most of their words."""
    draw = random.Random(1)
    fillers = [a + b for a in "bdfgklmn" for b in ("amble", "ottle", "inder", "upper", "aster")]
    texts = [f"{TOPICS[at % 4]} {draw.choice(fillers)}" for at in range(400)]
    embedder = HashEmbedder()
    return Stream(texts, [at % 4 for at in range(400)], np.stack([embedder.embed(text) for text in texts]))


def test_fixed_serves_by_cosine_alone_and_asks_no_judge(stream: Stream) -> None:
    outcome = replay(stream, Course(Rules("fixed", threshold=0.7)))
    assert outcome.hits > 200
    assert outcome.judge_calls == 0


def test_learned_serves_more_than_it_did_before_it_had_evidence(stream: Stream) -> None:
    learned = replay(stream, Course(Rules("learned", budget=0.05, is_strict=True)))
    assert learned.first_serve is not None
    assert learned.first_serve > 50
    assert learned.wrong <= 0.05 * learned.hits


def test_strict_serves_nothing_without_audits(stream: Stream) -> None:
    unaudited = Course(Rules("learned", is_strict=True), audited_hits=0, audited_misses=0)
    assert replay(stream, unaudited).hits == 0


def test_without_audits_learned_serves_what_guarded_serves(stream: Stream) -> None:
    learned, guarded = (
        replay(stream, Course(Rules(policy), audited_hits=0, audited_misses=0))
        for policy in ("learned", "guarded")
    )
    assert learned.served == guarded.served


def test_a_judge_that_calls_everything_wrong_stops_the_serving(stream: Stream) -> None:
    outcome = replay(stream, Course(Rules("learned", budget=0.05, is_strict=True)), judge=lambda *_: False)
    assert outcome.hits == 0


def test_the_same_seed_gives_the_same_run(stream: Stream) -> None:
    course = Course(Rules("learned"), audited_misses=0.3)
    assert replay(stream, course, seed=3) == replay(stream, course, seed=3)


def test_mistakes_name_both_questions(stream: Stream) -> None:
    mixed = Stream(stream.texts, [at % 3 for at in range(400)], stream.vectors)
    outcome = replay(mixed, Course(Rules("fixed", threshold=0.7)))
    assert outcome.mistakes
    assert all(stored < new for new, stored in outcome.mistakes)


def test_what_is_borrowed_serves_nothing_where_the_questions_mean_something_else(stream: Stream) -> None:
    """Each question asks for its own answer: every hit would be wrong, however well the lender does."""
    lent = replay(stream, Course(Rules("learned", budget=0.05))).weights
    strict = Rules("learned", budget=0.05, is_strict=True)
    other = Stream(stream.texts, list(range(400)), stream.vectors)
    assert lent is not None
    assert replay(other, Course(strict, audited_misses=0.3, lent=lent)).hits == 0


def test_what_is_borrowed_is_of_use_where_the_questions_mean_the_same(stream: Stream) -> None:
    lent = replay(stream, Course(Rules("learned", budget=0.05))).weights
    strict = Rules("learned", budget=0.05, is_strict=True)
    alone, borrowing = (
        replay(stream, Course(strict, audited_misses=0.5, lent=each)) for each in (None, lent)
    )
    assert borrowing.hits > alone.hits
    assert borrowing.wrong <= 0.05 * borrowing.hits
