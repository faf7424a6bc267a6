"""What other thresholds would have served, by a namespace's own audits; and how it stands with judges that err."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial

import pytest

from cache.acceptance import Features
from cache.evidence.correction import JudgeRates, Measured
from cache.evidence.drift import Drift
from cache.evidence.events import Audit
from cache.evidence.hindsight import Hindsight, look_back
from cache.evidence.ledger import Ledger, Standing
from cache.evidence.standing import Rules, assess

GUARDED = Rules("guarded", budget=0.1)
THRESHOLDS = (0.8, 0.9)


def audit(
    *, is_right: bool = True, cosine: float = 0.96, draw: float = 0.5, judge: str = "agreement"
) -> Audit:
    return Audit(Features(cosine, 0.8).row(), is_right, "shadow", draw, True, cosine, judge, 10.0)


def seen(
    audits: Sequence[Audit], measured: Measured = lambda _: None, *, rules: Rules = GUARDED
) -> Hindsight:
    ledger = Ledger(standing=Standing(state="on"))
    ledger.add(audits)
    return look_back(ledger, rules, thresholds=THRESHOLDS, budgets=(0.1,), at_s=100.0, measured=measured)


def stand(audits: Sequence[Audit], measured: Measured, *, rules: Rules = GUARDED) -> Standing:
    ledger = Ledger(standing=Standing(state="on" if rules.policy == "guarded" else "learning"))
    ledger.add(audits)
    return assess(ledger, rules, at_s=100.0, measured=measured)


def judged(count: int, true_share: float, rates: tuple[float, float], *, seed: int = 1) -> list[Audit]:
    """Audits by a judge with these rates of false agreement and disagreement, of hits of which this share is wrong."""
    chance = random.Random(seed)

    def found() -> bool:
        is_wrong = chance.random() < true_share
        errs = chance.random() < rates[0 if is_wrong else 1]
        return is_wrong == errs

    return [audit(is_right=found()) for _ in range(count)]


def knowing(**rates: tuple[float, float]) -> Measured:
    pairs = 10_000
    known = {
        name: JudgeRates(pairs, round(agree * pairs), pairs, round(disagree * pairs))
        for name, (agree, disagree) in rates.items()
    }
    return known.get


def test_each_audit_stands_for_all_that_it_was_drawn_from() -> None:
    found = seen([audit(draw=0.5), audit(draw=0.02), audit(cosine=0.85, is_right=False, draw=0.1)])
    low, high = found.points[:2]
    assert (low.hits, low.wrong) == pytest.approx((62, 10))
    assert (high.hits, high.wrong) == pytest.approx((52, 0))
    assert (low.audits, high.audits) == (3, 2)
    assert (found.since_s, found.judges, found.is_corrected) == (10.0, ("agreement",), False)


def test_audits_of_unequal_draws_make_the_interval_wider_than_as_many_equal_ones() -> None:
    equal = seen([audit() for _ in range(40)]).points[0]
    unequal = seen([audit(draw=1.0 if number else 0.01) for number in range(40)]).points[0]
    assert unequal.high > equal.high


def test_what_led_to_a_trip_is_looked_back_on_and_what_came_before_a_drift_is_not() -> None:
    ledger = Ledger(standing=Standing(state="tripped", trusted_from_s=50.0))
    ledger.add([audit()])
    look = partial(look_back, ledger, GUARDED, thresholds=THRESHOLDS, budgets=(), at_s=100.0)
    assert look().audits == 1
    ledger.drift = Drift(changed_s=50.0)
    assert look().audits == 0


def test_without_audits_nothing_is_known() -> None:
    found = seen([])
    assert [(point.hits, point.low, point.high) for point in found.points] == [(0, 0, 1)] * 3


def test_what_a_measured_judge_finds_is_corrected() -> None:
    audits = judged(4_000, 0.05, (0.3, 0.1))
    point = seen(audits, knowing(agreement=(0.3, 0.1))).points[0]
    assert point.wrong / point.hits == pytest.approx(0.05, abs=0.02)
    assert point.low <= 0.05 <= point.high
    plain = seen(audits).points[0]
    assert plain.wrong / plain.hits > 0.1


def test_the_findings_of_a_judge_that_is_not_usable_are_left_out() -> None:
    assert seen([audit() for _ in range(50)], knowing(agreement=(0.9, 0.05))).audits == 0


def test_a_budget_is_looked_back_on_with_the_score_that_would_be_learned() -> None:
    chance = random.Random(3)
    audits = [
        audit(cosine=cosine, is_right=cosine > 0.9 or chance.random() < 0.3)
        for cosine in (chance.uniform(0.75, 1.0) for _ in range(600))
    ]
    learned = seen(audits, rules=Rules("guarded", budget=0.02)).points[-1]
    assert (learned.policy, learned.budget) == ("learned", 0.1)
    assert learned.hits > 0
    assert learned.wrong / learned.hits <= 0.1


def test_a_namespace_shows_what_its_judge_found_and_what_that_means() -> None:
    found = stand(judged(60, 0.0, (0.0, 0.05)), knowing(agreement=(0.0, 0.05)))
    assert found.corrected is not None
    assert found.corrected[0] < found.wrong_share.wrong / found.wrong_share.audits
    assert stand(judged(60, 0.0, (0.0, 0.05)), lambda _: None).corrected is None


def test_a_judge_that_makes_errors_up_does_not_trip_a_namespace_once_that_is_known() -> None:
    audits = judged(60, 0.0, (0.0, 0.4))
    assert stand(audits, lambda _: None).state == "tripped"
    assert stand(audits, knowing(agreement=(0.0, 0.4))).state == "on"


def test_a_judge_that_hides_errors_trips_a_namespace_once_that_is_known() -> None:
    audits = judged(400, 0.25, (0.7, 0.0), seed=2)
    assert stand(audits, lambda _: None).state == "on"
    assert stand(audits, knowing(agreement=(0.7, 0.0))).state == "tripped"


@pytest.mark.parametrize("policy", ["guarded", "learned"])
def test_where_the_judge_is_not_usable_its_audits_show_nothing(policy: str) -> None:
    rules = Rules(policy, budget=0.1, is_strict=True)
    found = stand(judged(400, 0.0, (0.0, 0.0)), knowing(agreement=(0.9, 0.05)), rules=rules)
    assert found.reason == "judge-not-usable"
    assert found.state == ("on" if policy == "guarded" else "learning")
    assert found.wrong_share.audits == 0
    assert found.least_score is None


def test_a_learned_score_serves_less_where_the_judge_is_known_to_hide_errors() -> None:
    chance = random.Random(5)
    audits = [
        audit(cosine=cosine, is_right=chance.random() < 0.75 + cosine / 4)
        for cosine in (chance.uniform(0.75, 1.0) for _ in range(2_000))
    ]
    rules = Rules("learned", budget=0.05)
    trusted = stand(audits, lambda _: None, rules=rules).least_score
    corrected = stand(audits, knowing(agreement=(0.6, 0.0)), rules=rules).least_score
    assert trusted is not None
    assert corrected is None or corrected > trusted
