"""When a member is no longer asked, and how it comes back."""

from __future__ import annotations

import pytest

from backends import Recovery
from tests.backends.routers import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench("a", "b")


def state(bench: Bench, name: str = "a") -> str:
    return bench.router[name].breaker.state(bench.now_s)


def test_five_failures_in_a_row_open_it(bench: Bench) -> None:
    bench.fail("a", times=4)
    assert state(bench) == "closed"
    bench.fail("a")
    assert state(bench) == "open"
    assert set(bench.shares(50)) == {"b"}


def test_an_answer_in_between_starts_the_row_anew(bench: Bench) -> None:
    for _ in range(4):
        bench.answer("a", times=2)
        bench.fail("a", times=1)
    assert state(bench) == "closed"


def test_half_of_ten_failures_open_it_though_never_five_in_a_row(bench: Bench) -> None:
    for _ in range(5):
        bench.answer("a")
        bench.fail("a")
    assert state(bench) == "open"


def test_a_stream_that_breaks_each_time_opens_it_though_it_begins_well(bench: Bench) -> None:
    for _ in range(5):
        trial = bench.begin("a")
        trial.note_answer(is_first_token=True)
        trial.end("cut")
    assert state(bench) == "open"


@pytest.mark.parametrize("word", ["connect", "reset"])
def test_a_member_that_cannot_be_reached_is_out_at_once(bench: Bench, word: str) -> None:
    bench.fail("a", word)
    assert bench.router["a"].standing(bench.now_s) == "unreached"
    assert set(bench.shares(50)) == {"b"}


def test_after_two_seconds_one_request_is_let_through(bench: Bench) -> None:
    bench.fail("a", times=5)
    bench.now_s += 2
    assert state(bench) == "half-open"
    assert "a" in bench.shares(50)
    bench.begin("a")
    assert set(bench.shares(50)) == {"b"}


def test_a_trial_that_answers_closes_it_and_the_member_warms_up(bench: Bench) -> None:
    bench.fail("a", times=5)
    bench.now_s += 3
    bench.answer("a")
    assert state(bench) == "closed"
    bench.now_s += 1
    bench.choose()
    assert bench.router["a"].weight < 0.2
    assert bench.router.recoveries.pop() == Recovery("a", "failure", 3.0)


def test_each_trial_that_fails_doubles_the_time(bench: Bench) -> None:
    bench.fail("a", times=5)
    for pause_s in (2, 4, 8, 16, 32, 60, 60):
        bench.now_s += pause_s - 0.01
        assert state(bench) == "open"
        bench.now_s += 0.01
        assert state(bench) == "half-open"
        bench.fail("a")


def test_a_trial_whose_caller_leaves_makes_room_for_another(bench: Bench) -> None:
    bench.fail("a", times=5)
    bench.now_s += 2
    bench.begin("a").end("cancelled")
    assert "a" in bench.shares(50)


def test_requests_from_before_it_opened_decide_nothing(bench: Bench) -> None:
    early, late = bench.begin("a"), bench.begin("a")
    bench.now_s += 1
    bench.fail("a", times=5)
    bench.now_s += 1
    early.note_answer()
    early.end(is_complete=True)
    assert state(bench) == "open"
    late.end("status")
    bench.now_s += 1
    assert state(bench) == "half-open"


def test_where_all_are_out_all_are_asked_and_an_answer_brings_one_back() -> None:
    bench = Bench("a", "b", "c")
    for name in "abc":
        bench.fail(name, times=5)
    assert len(bench.shares(200)) == 3
    bench.now_s += 0.1
    bench.answer("b")
    assert state(bench, "b") == "closed"


def test_failures_while_all_are_asked_do_not_prolong_the_time() -> None:
    bench = Bench("a")
    bench.fail("a", times=50)
    bench.now_s += 2
    assert state(bench) == "half-open"


def test_a_server_that_says_it_is_failing_is_not_asked(bench: Bench) -> None:
    bench.say("a", health="failing")
    assert set(bench.shares(50)) == {"b"}
    bench.say("b", health="failing")
    assert set(bench.shares(50)) == {"a", "b"}


def test_a_server_that_says_it_is_well_does_not_close_its_breaker(bench: Bench) -> None:
    bench.fail("a", times=5)
    bench.now_s += 0.5
    bench.say("a", health="ok")
    assert set(bench.shares(50)) == {"b"}


def test_a_word_on_health_is_believed_no_longer_than_it_is_fresh(bench: Bench) -> None:
    bench.say("a", health="failing")
    bench.now_s += 1
    assert "a" in bench.shares(50)
