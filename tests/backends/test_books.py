"""Load, pace, health, warmth and standing of a member, each from what was seen of it."""

from __future__ import annotations

import pytest

from backends.choose import InFlight, expected_load, with_kv_pressure
from backends.choose.pace import finished_window, qps_ratios
from backends.model import Signals
from backends.survive import RetryBudget, Vitals, Warmup, health_factor, usable, verdict
from backends.survive.ejection import Standing
from backends.window import Window
from tests.backends.routers import Bench

SAID = Signals("a", 0.0, 0.25, running=6.0, waiting=2.0)


def test_without_a_word_from_the_server_the_other_workers_have_as_many_as_we() -> None:
    assert expected_load(said=None, own=3, own_then=0, workers=4) == 12


def test_own_requests_are_counted_once() -> None:
    """Two of the eight that it counts are ours; one of them has ended, three were sent since."""
    assert expected_load(said=SAID, own=4, own_then=2, workers=1) == 10


def test_other_workers_are_taken_to_have_sent_as_many_since() -> None:
    assert expected_load(said=SAID, own=4, own_then=2, workers=4) == 16


def test_load_is_never_less_than_what_we_have_there() -> None:
    assert expected_load(said=SAID, own=5, own_then=50, workers=4) == 5


def test_a_stale_word_is_not_believed() -> None:
    bench = Bench("a", workers=4)
    bench.say("a", running=20.0)
    books = bench.router["a"]
    assert books.load(workers=4, now_s=bench.now_s) == 20
    bench.now_s += 0.8  # more than three intervals of a quarter second
    bench.begin("a")
    assert books.load(workers=4, now_s=bench.now_s) == 4


def test_a_word_is_believed_for_200_ms_at_least() -> None:
    assert Signals("a", 10.0, 0.05).fresh_until_s == 10.2


def test_in_flight_can_be_told_for_the_moment_of_a_scrape() -> None:
    counts = InFlight()
    for moment, change in ((1.0, 1), (2.0, 1), (3.0, -1), (4.0, 1)):
        counts.add(moment, change)
    assert [counts.at(moment) for moment in (0.5, 2.5, 3.5, 9.0)] == [0, 2, 1, 2]


def test_a_long_wait_for_a_scrape_stays_bounded_and_right_at_its_end() -> None:
    counts = InFlight()
    for number in range(20_000):
        counts.add(float(number), 1)
    assert counts.at(19_998.5) == 19_999


def test_full_kv_memory_adds_to_the_load_and_half_full_does_not() -> None:
    assert with_kv_pressure(4, 0.5) == 4
    assert with_kv_pressure(4, None) == 4
    assert with_kv_pressure(4, 0.9) == pytest.approx(9)
    assert with_kv_pressure(0, 1.0) == pytest.approx(2)


def test_pace_tells_quick_from_slow() -> None:
    windows = {"quick": finished_window(), "slow": finished_window()}
    for number in range(50):
        windows["quick"].note(number, 1.0)
        windows["slow"].note(number, 3.0)
    ratios = qps_ratios(windows, now_s=50.0)
    assert ratios["quick"] > 2.5 * ratios["slow"]


def test_pace_forgets_after_a_minute() -> None:
    windows = {"quick": finished_window(), "slow": finished_window()}
    windows["slow"].note(0.0, 100.0)
    windows["quick"].note(0.0, 1.0)
    assert qps_ratios(windows, now_s=59.0)["slow"] < 1
    assert qps_ratios(windows, now_s=61.0) == {"quick": 1.0, "slow": 1.0}


def test_one_lucky_request_makes_no_champion() -> None:
    windows = {"lucky": finished_window(), "usual": finished_window()}
    windows["lucky"].note(0.0, 0.01)
    for _ in range(100):
        windows["usual"].note(0.0, 1.0)
    assert qps_ratios(windows, now_s=1.0)["lucky"] < 1.6


def test_weights_follow_the_pace_within_800_ms() -> None:
    bench = Bench("quick", "slow")
    bench.choose()
    bench.answer("quick", took_s=0.01, times=20)
    bench.answer("slow", took_s=0.02, times=20)
    bench.choose()
    before = bench.router["quick"].weight
    bench.answer("slow", took_s=0.2, times=1)
    for _ in range(20):
        bench.router["slow"].finished.note(bench.now_s, 1.0)
    bench.now_s += 0.8
    bench.choose()
    assert bench.router["quick"].weight > before


def test_first_tokens_far_slower_than_the_best_ones_cost_weight() -> None:
    assert health_factor(first_token_s=0.2, best_s=0.1, errors=0.0) == 1.0
    assert health_factor(first_token_s=3.0, best_s=0.1, errors=0.0) == pytest.approx(0.1)
    assert health_factor(first_token_s=None, best_s=0.1, errors=0.0) == 1.0


def test_errors_cost_weight_and_are_forgotten_but_never_all_of_it() -> None:
    vitals = Vitals()
    for _ in range(100):
        vitals.note_outcome(is_error=True, now_s=0.0)
    assert vitals.errors(0.0) > 0.99
    assert vitals.errors(20.0) == pytest.approx(0.25, abs=0.01)
    assert health_factor(first_token_s=None, best_s=None, errors=1.0) == 0.05


def test_a_new_member_warms_up_from_its_first_answer_on() -> None:
    warmup = Warmup()
    warmup.begin(0.0)
    assert warmup.factor(100.0) == 0.1  # it may say that it is healthy for as long as it likes
    warmup.note_success(100.0)
    assert [warmup.factor(moment) for moment in (100.0, 115.0, 130.0)] == [0.1, 0.5, 1.0]


def test_before_its_first_answer_a_new_member_gets_two_requests_at_most() -> None:
    warmup = Warmup()
    assert warmup.may_take(1000)
    warmup.begin(0.0)
    assert [warmup.may_take(count) for count in (0, 1, 2)] == [True, True, False]


def stands(*words: Standing, tiers: list[int] | None = None) -> list[int]:
    return usable(tiers or [0] * len(words), words)


def test_members_that_failed_are_left_out() -> None:
    assert stands("in", "ejected", "in") == [0, 2]


def test_never_more_than_half_are_left_out() -> None:
    assert stands("in", "ejected") == [0]
    assert stands("in", "ejected", "ejected") == [0, 1, 2]


def test_members_that_cannot_be_reached_are_left_out_however_many() -> None:
    assert stands("in", "unreached", "unreached", "unreached") == [0]
    assert stands("in", "ejected", "unreached") == [0]


def test_if_nobody_is_in_those_that_can_be_reached_are_tried() -> None:
    assert stands("ejected", "unreached") == [0]
    assert stands("unreached", "unreached") == [0, 1]
    assert stands() == []


def test_newcomers_that_have_enough_to_do_are_no_failures() -> None:
    assert stands("in", "warming", "warming", "warming") == [0]
    assert stands("warming", "unreached") == [0]


def test_a_lower_tier_is_asked_only_when_nobody_above_is_in() -> None:
    assert stands("in", "in", tiers=[0, 1]) == [0]
    assert stands("in", "ejected", "in", tiers=[0, 0, 1]) == [0]
    assert stands("ejected", "ejected", "in", tiers=[0, 0, 1]) == [2]
    assert stands("ejected", "unreached", "unreached", tiers=[0, 0, 1]) == [0]
    assert stands("unreached", "ejected", tiers=[0, 1]) == [1]


def test_a_retry_needs_budget() -> None:
    budget = RetryBudget()
    assert sum(budget.take(0.0) for _ in range(100)) == 30  # three a second
    for _ in range(1000):
        budget.note_request(1.0)
    assert sum(budget.take(1.0) for _ in range(1000)) == 200  # a fifth of all beside
    assert budget.take(20.0)


@pytest.mark.parametrize(
    ("error", "is_stream", "silent_s", "expected"),
    [
        (None, True, 0.0, "well"),
        ("connect", True, 0.0, "unreached"),
        ("reset", False, 0.0, "unreached"),
        ("status", False, 0.0, "failed"),
        ("idle", True, 60.0, "failed"),
        ("cut", True, 0.0, "failed"),
        ("timeout", True, 2.0, "failed"),
        ("deadline", True, 2.0, "failed"),
        ("deadline", False, 2.0, "nothing"),
        ("timeout", False, 90.0, "failed"),
        ("cancelled", True, 0.0, "nothing"),
        ("too-late", True, 0.0, "nothing"),
        ("busy", True, 0.0, "nothing"),
        ("internal", False, 0.0, "nothing"),
    ],
)
def test_how_an_attempt_ends_says_something_of_its_member_or_not(
    error: str | None, is_stream: bool, silent_s: float, expected: str
) -> None:
    assert verdict(error, is_stream=is_stream, silent_s=silent_s, patience_s=60.0) == expected


def test_a_window_adds_up_what_lies_within_its_span() -> None:
    window = Window(span_s=10.0, slices=10)
    for second in range(30):
        window.note(float(second), 2.0)
    assert (window.count(29.0), window.amount(29.0)) == (10, 20.0)
    assert window.count(34.0) == 5
    assert window.count(100.0) == 0
