"""How a namespace stands by its audits: pure, on made-up evidence."""

from __future__ import annotations

import math
import random

import msgspec
import pytest
from msgspec.structs import replace

from cache.acceptance import Features
from cache.evidence.correction import enough
from cache.evidence.drift import WINDOW, Drift, Lengths
from cache.evidence.events import Aliased, Audit, Event, Raised, Reported, Traffic, Words, decode, encode
from cache.evidence.ledger import Ledger, Standing, publish, published, wilson
from cache.evidence.ledger import decode as decode_ledger
from cache.evidence.ledger import encode as encode_ledger
from cache.evidence.standing import Rules, assess

GUARDED = Rules("guarded", budget=0.1)
LEARNED = Rules("learned", budget=0.1, is_strict=True)


def audit(
    *, is_right: bool = True, cosine: float = 0.96, at_s: float = 1.0, would_serve: bool = True
) -> Audit:
    row = Features(cosine, 0.8).row()
    return Audit(row, is_right, "served", 0.02, would_serve, cosine, "agreement", at_s)


def stand(ledger: Ledger, rules: Rules = GUARDED, *, at_s: float = 100.0) -> Standing:
    ledger.standing = assess(ledger, rules, at_s=at_s)
    return ledger.standing


def on(**more: object) -> Ledger:
    return Ledger(standing=Standing(state="on", **more))  # type: ignore[arg-type]  # what a test names


def test_guarded_serves_without_evidence_and_says_so() -> None:
    found = stand(Ledger())
    assert (found.state, found.reason, found.version) == ("on", "few-audits", 1)


def test_enough_audits_without_an_error_show_that_the_budget_holds() -> None:
    ledger = on()
    ledger.add([audit() for _ in range(enough(0.1))])
    assert stand(ledger).reason == "within-budget"
    assert ledger.standing.wrong_share.high <= 0.12


@pytest.mark.parametrize(("budget", "audits"), [(0.1, 22), (0.05, 45), (0.02, 114), (0.01, 230)])
def test_a_smaller_budget_needs_more_audits(budget: float, audits: int) -> None:
    assert enough(budget) == audits


def test_wrong_hits_trip() -> None:
    ledger = on()
    ledger.add([audit() for _ in range(30)])
    ledger.add([audit(is_right=False) for _ in range(5)])
    assert (stand(ledger).state, ledger.standing.reason) == ("tripped", "over-budget")


def test_one_wrong_hit_is_no_surprise() -> None:
    ledger = on()
    ledger.add([audit(), audit(is_right=False)])
    assert stand(ledger).state == "on"


def test_pairs_that_are_not_served_do_not_trip() -> None:
    ledger = on()
    ledger.add([audit(is_right=False, cosine=0.8, would_serve=False) for _ in range(100)])
    assert stand(ledger).state == "on"


def test_a_share_within_the_budget_rarely_trips() -> None:
    tripped = 0
    for seed in range(20):
        rng, ledger = random.Random(seed), on()
        for _ in range(20):
            ledger.add([audit(is_right=rng.random() > 0.03) for _ in range(10)])
            tripped += stand(ledger).state == "tripped"
    assert tripped <= 4  # of 400 looks


def test_clean_audits_after_a_trip_lead_back_and_old_ones_do_not_count() -> None:
    ledger = on()
    ledger.add([audit(is_right=False) for _ in range(10)])
    assert stand(ledger, at_s=10.0).state == "tripped"
    ledger.add([audit(at_s=11.0) for _ in range(enough(0.1) - 1)])
    assert (stand(ledger, at_s=12.0).state, ledger.standing.reason) == ("tripped", "not-enough-evidence")
    ledger.add([audit(at_s=13.0)])
    assert stand(ledger, at_s=14.0).state == "on"


def test_audits_that_are_still_wrong_keep_it_tripped() -> None:
    ledger = Ledger(standing=Standing(state="tripped"))
    ledger.add([audit(is_right=at % 4 > 0) for at in range(60)])
    assert (stand(ledger).state, ledger.standing.reason) == ("tripped", "over-budget")


def test_three_reporters_trip_and_one_who_reports_often_does_not() -> None:
    ledger = on()
    ledger.add([Reported(b"a", 90.0)] * 20)
    assert stand(ledger).state == "on"
    ledger.add([Reported(b"b", 91.0), Reported(b"c", 92.0)])
    assert (stand(ledger).state, ledger.standing.reason) == ("tripped", "reported-wrong")
    assert ledger.standing.reported_wrong == 22


def test_reports_are_forgotten_after_an_hour_and_never_change_the_share() -> None:
    ledger = on()
    ledger.add([audit() for _ in range(30)] + [Reported(key, 0.0) for key in (b"a", b"b", b"c")])
    assert stand(ledger, at_s=3_700.0).state == "on"
    assert ledger.standing.wrong_share == wilson(0, 30)


def test_a_learned_score_needs_evidence_and_then_serves_down_to_where_the_budget_holds() -> None:
    ledger = Ledger()
    assert (stand(ledger, LEARNED).state, ledger.standing.least_score) == ("learning", None)
    rng = random.Random(1)
    cosines = [rng.uniform(0.76, 0.99) for _ in range(400)]  # below 0.88 every other one is wrong
    ledger.add(
        [
            audit(cosine=cosine, is_right=cosine > 0.88 or rng.random() > 0.5, would_serve=False)
            for cosine in cosines
        ]
    )
    found = stand(ledger, LEARNED)
    assert found.state == "on"
    assert found.weights is not None
    assert found.least_score is not None

    def score(cosine: float) -> float:
        assert found.weights is not None
        return sum(
            one * other for one, other in zip(Features(cosine, 0.8).row(), found.weights.mean, strict=True)
        )

    assert score(0.80) < found.least_score < score(0.97)


def test_what_is_wrong_at_any_score_is_never_learned_to_be_served() -> None:
    ledger = Ledger()
    rng = random.Random(2)
    ledger.add(
        [
            audit(cosine=rng.uniform(0.76, 0.99), is_right=rng.random() > 0.4, would_serve=False)
            for _ in range(500)
        ]
    )
    assert (stand(ledger, LEARNED).state, ledger.standing.least_score) == ("learning", None)


def test_everything_is_bounded() -> None:
    ledger = Ledger()
    ledger.add([audit() for _ in range(7_000)])
    ledger.add([Traffic(((1.0, 2.0, 3.0),) * 3_000)])
    ledger.add([Words(1, {number.to_bytes(8, "big"): 1}) for number in range(9_000)])
    ledger.add([Raised(number, 0.9, 1.0) for number in range(5_000)])
    ledger.add([Reported(number.to_bytes(8, "big"), 1.0) for number in range(300)])
    sizes = [
        len(kept) for kept in (ledger.audits, ledger.traffic, ledger.words, ledger.raised, ledger.reporters)
    ]
    assert all(size <= most for size, most in zip(sizes, (6_000, 2_000, 8_192, 4_096, 256), strict=True))
    assert 4_999 in ledger.raised


def test_what_is_stored_comes_back() -> None:
    ledger = on()
    ledger.add([audit(), Raised(7, 0.97, 3.0), Words(2, {b"12345678": 1}), Reported(b"k", 5.0)])
    ledger.add([audit(cosine=0.8 + at / 1000) for at in range(60)])
    stand(ledger, LEARNED)
    assert decode_ledger(encode_ledger(ledger)) == ledger
    sent = published(publish(ledger))
    assert sent is not None
    assert (sent.standing, sent.raised, sent.texts) == (ledger.standing, {7: (0.97, 3.0)}, 2)


def test_events_come_back_and_damaged_ones_are_none() -> None:
    events: list[Event] = [
        audit(),
        Raised(1, 0.9, 1.0),
        Reported(b"k", 1.0),
        Traffic(((1.0, 2.0),)),
        Words(1, {b"w": 1}),
    ]
    assert decode(encode(events)) == events
    assert decode(b"\x00") == decode(b"") == decode(encode(events)[:-3]) == []


def test_a_ledger_of_another_format_begins_anew() -> None:
    assert decode_ledger(b"\x92\x02\x80") == decode_ledger(None) == Ledger()


def test_an_entry_keeps_its_worst_offence() -> None:
    ledger = Ledger()
    ledger.add([Raised(1, 0.97, 1.0), Raised(1, 0.95, 2.0)])
    assert ledger.raised == {1: (0.97, 2.0)}


def test_the_version_counts_up() -> None:
    ledger = Ledger()
    assert [stand(ledger).version for _ in range(3)] == [1, 2, 3]
    assert replace(ledger.standing, version=0) == replace(stand(ledger), version=0)


def test_aliases_are_one_deep_and_at_most_so_many_of_one() -> None:
    ledger = Ledger()
    ledger.add([Aliased(2, 1), Aliased(3, 2)])
    assert ledger.aliases == {2: 1, 3: 1}
    ledger.add([Aliased(1, 9)])  # others belong to it
    assert ledger.aliases == {2: 1, 3: 1}
    ledger.add([Aliased(number, 1) for number in range(100, 200)])
    assert len(ledger.aliases) == 32


def test_an_alias_that_was_wrong_stands_for_itself_again() -> None:
    ledger = Ledger()
    ledger.add([Aliased(2, 1), Aliased(2, 2)])
    assert ledger.aliases == {}


def lengths(tokens: int, *, texts: int = WINDOW, at_s: float) -> Words:
    return Words(texts, {}, Lengths(texts, tokens * texts, texts * math.log(tokens)), at_s)


def test_audits_from_before_the_questions_changed_count_no_more() -> None:
    ledger = on()
    ledger.add([lengths(8, at_s=0.0), *(audit(at_s=1.0) for _ in range(30)), Traffic(((1.0,) * 6,))])
    assert stand(ledger).reason == "within-budget"
    ledger.add([lengths(80, texts=WINDOW - 1, at_s=50.0), audit(at_s=51.0), lengths(80, texts=1, at_s=60.0)])
    found = stand(ledger)
    assert (found.reason, found.wrong_share.audits, found.trusted_from_s) == ("few-audits", 1, 50.0)
    assert (found.drift_alarms, found.divergence > 0.12) == (1, True)
    assert ledger.traffic == []


def test_a_learned_score_is_not_served_any_more_when_the_questions_have_changed() -> None:
    ledger = Ledger()
    ledger.add([lengths(8, at_s=0.0), *(audit(cosine=0.8 + at / 1000) for at in range(200))])
    assert stand(ledger, LEARNED).state == "on"
    ledger.add([lengths(80, at_s=50.0)])
    found = stand(ledger, LEARNED)
    assert (found.state, found.least_score) == ("learning", None)


def test_events_of_a_version_that_counted_no_lengths_are_read() -> None:
    older = msgspec.msgpack.encode([1, [["d", 3, {b"w": 1}]]])
    ledger = Ledger()
    ledger.add(decode(older))
    assert (ledger.texts, ledger.drift) == (3, Drift())


def test_borrowed_weights_are_shown_and_bring_no_audits() -> None:
    ledger, other = Ledger(), Ledger()
    other.add([audit(cosine=0.8 + at / 1000) for at in range(200)])
    lent = stand(other, LEARNED).weights
    ledger.add([audit(cosine=0.8 + at / 100) for at in range(20)])
    found = assess(ledger, LEARNED, at_s=1.0, lent=lent)
    assert (found.evidence, found.audits, found.wrong_share.audits) == ("borrowed", 20, 20)
    assert assess(ledger, LEARNED, at_s=1.0).evidence == "own"
    assert assess(Ledger(), LEARNED, at_s=1.0, lent=lent).state == "learning"


def test_audits_of_ones_own_outweigh_what_was_borrowed() -> None:
    """Audits of the namespace itself bound what may be served, whatever the weights came from."""
    ledger, other = Ledger(), Ledger()
    other.add([audit(cosine=0.8 + at / 1000) for at in range(200)])
    lent = stand(other, LEARNED).weights
    ledger.add([audit(is_right=at % 2 == 0, cosine=0.8 + at / 500) for at in range(100)])
    assert assess(ledger, LEARNED, at_s=1.0, lent=lent).least_score is None


def test_traffic_is_what_came_lately_each_audit_for_all_the_misses_it_was_drawn_from() -> None:
    ledger = Ledger()
    miss = replace(audit(cosine=0.8), source="shadow", draw=0.25)
    ledger.add([miss, audit(), Traffic(((1.0, 2.0),))])
    assert ledger.traffic == [miss.row] * 4 + [(1.0, 2.0)]
    ledger.add([Traffic(((3.0, float(at)),)) for at in range(2_000)])
    assert ledger.traffic == [(3.0, float(at)) for at in range(1_000, 2_000)]
