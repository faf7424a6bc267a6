"""Tiers, abilities, affinity, drains, and members that come and go."""

from __future__ import annotations

from collections import Counter

import pytest

from backends import Capabilities, Needs, NoBackend, Recovery
from backends.model import Signals
from tests.backends.routers import Bench, a_member


def test_the_fallback_tier_is_asked_when_the_first_is_out() -> None:
    bench = Bench("main", a_member("spare", tier=1))
    assert set(bench.shares(50)) == {"main"}
    bench.fail("main", times=5)
    assert set(bench.shares(50)) == {"spare"}


@pytest.mark.parametrize(
    ("able", "needs"),
    [
        (Capabilities(max_context=32_000), Needs(context_tokens=16_000)),
        (
            Capabilities(max_context=8000, modalities=frozenset({"image"})),
            Needs(modalities=frozenset({"image"})),
        ),
        (Capabilities(max_context=8000, loras=frozenset({"legal"})), Needs(lora="legal")),
        (
            Capabilities(max_context=8000, features=frozenset({"cache_salt"})),
            Needs(features=frozenset({"cache_salt"})),
        ),
    ],
)
def test_a_request_goes_only_to_members_that_can_serve_it(able: Capabilities, needs: Needs) -> None:
    bench = Bench(
        a_member("plain", capabilities=Capabilities(max_context=8000)), a_member("able", capabilities=able)
    )
    assert set(bench.shares(50, needs=needs)) == {"able"}
    assert set(bench.shares(50)) == {"plain", "able"}


def test_an_unknown_context_length_rules_nothing_out() -> None:
    assert Bench("a").choose(needs=Needs(context_tokens=10**6)) == "a"


def test_where_nobody_can_serve_it_there_is_no_backend() -> None:
    with pytest.raises(NoBackend):
        Bench("a", "b").choose(needs=Needs(lora="legal"))


def test_a_session_stays_at_its_member_whatever_the_load() -> None:
    bench = Bench("a", "b", "c")
    home = bench.choose(session="s-1")
    for _ in range(10):
        bench.begin(home)
    assert set(bench.shares(20, session="s-1")) == {home}


def test_a_session_moves_when_its_member_is_out_and_only_then_others_stay() -> None:
    bench = Bench("a", "b", "c")
    homes = {key: bench.choose(session=key) for key in map(str, range(60))}
    bench.fail("a", times=5)
    for key, home in homes.items():
        assert (bench.choose(session=key) == home) == (home != "a")


def test_a_drained_member_gets_nothing_new_and_finishes_what_it_has() -> None:
    bench = Bench("a", "b")
    running = bench.begin("a")
    bench.update("a", "b", drained={"a": "preemption"})
    assert set(bench.shares(50)) == {"b"}
    states = [bench.router["a"].state]
    bench.now_s += 7
    running.note_answer()
    running.end(is_complete=True)
    assert [*states, bench.router["a"].state] == ["draining", "drained"]
    assert list(bench.router.recoveries) == [Recovery("a", "preemption", 7.0)]


def test_draining_an_idle_member_is_done_at_once() -> None:
    bench = Bench("a", "b")
    bench.update("a", "b", drained={"a": "maintenance"})
    assert list(bench.router.recoveries) == [Recovery("a", "maintenance", 0.0)]


def test_a_drain_that_is_told_again_begins_only_once() -> None:
    bench = Bench("a", "b")
    running = bench.begin("a")
    for _ in range(3):
        bench.update("a", "b", drained={"a": "preemption"})
        bench.now_s += 1
    running.end("cancelled")
    assert list(bench.router.recoveries) == [Recovery("a", "preemption", 3.0)]


def test_a_restored_member_warms_up() -> None:
    bench = Bench("a", "b")
    bench.update("a", "b", drained={"a": "admin"})
    bench.update("a", "b")
    bench.answer("a", took_s=1.0)
    assert 0.02 < bench.shares()["a"] / 1000 < 0.2
    bench.now_s += 31
    assert bench.shares()["a"] / 1000 == pytest.approx(0.5, abs=0.06)


def test_if_all_are_drained_there_is_no_backend() -> None:
    bench = Bench("a")
    bench.update("a", drained={"a": "admin"})
    with pytest.raises(NoBackend):
        bench.choose()


def test_a_new_member_gets_little_until_it_is_warm() -> None:
    bench = Bench("a", "b")
    bench.update("a", "b", "new")
    for _ in range(100):
        bench.begin(bench.choose())
    assert bench.router.in_flight()["new"] == 2


def test_members_that_were_there_from_the_start_are_warm() -> None:
    assert bench_share("a", "b", "c") == pytest.approx(1 / 3, abs=0.06)


def bench_share(*names: str) -> float:
    return Bench(*names).shares()[names[0]] / 1000


def test_a_member_that_stays_the_same_server_keeps_its_books() -> None:
    bench = Bench("a", "b")
    running = bench.begin("a")
    bench.fail("b", times=5)
    bench.update(a_member("a", weight=2.0), "b")
    assert bench.router.in_flight() == {"a": 1, "b": 0}
    assert bench.router["b"].breaker.state(bench.now_s) == "open"
    running.end("cancelled")
    assert bench.router.in_flight() == {"a": 0, "b": 0}


def test_a_member_that_is_another_server_now_starts_anew_and_old_requests_are_still_counted() -> None:
    bench = Bench("a", "b")
    running = bench.begin("a")
    moved = a_member("a")
    bench.update(type(moved)("a", "http://elsewhere", "m", "1"), "b")
    assert bench.router["a"].in_flight.count == 0
    assert bench.router.in_flight() == {"a": 1, "b": 0}
    running.end("cancelled")
    assert bench.router.in_flight() == {"a": 0, "b": 0}


def test_a_member_that_was_taken_out_gets_nothing_new_and_finishes_what_it_has() -> None:
    bench = Bench("a", "b")
    running = bench.begin("a")
    before = bench.members
    bench.update("b")
    bench.members = before  # a version that was resolved earlier still names it
    assert set(bench.shares(20)) == {"b"}
    assert bench.router.in_flight() == {"b": 0, "a": 1}
    running.end("cancelled")
    assert bench.router.in_flight() == {"b": 0}
    assert [recovery.cause for recovery in bench.router.recoveries] == ["removed"]


def test_an_old_word_does_not_replace_a_newer_one() -> None:
    bench = Bench("a", "b")
    bench.say("a", running=7.0)
    bench.router.update_signals([Signals("a", bench.now_s - 0.1, 0.25, running=1.0)])
    bench.router.update_signals([Signals("unknown", bench.now_s, 0.25, running=1.0)])
    assert bench.router["a"].load(workers=1, now_s=bench.now_s) == 7.0


def test_routing_follows_queues_that_others_filled() -> None:
    bench = Bench("a", "b")
    bench.say("a", running=4.0, waiting=6.0)
    bench.say("b", running=4.0, waiting=0.0)
    assert set(bench.shares(50)) == {"b"}


def test_routing_follows_kv_memory() -> None:
    bench = Bench("a", "b")
    bench.say("a", running=4.0, kv_usage=0.97)
    bench.say("b", running=5.0, kv_usage=0.5)
    assert set(bench.shares(50)) == {"b"}


def test_a_member_that_asks_for_rest_gets_it_until_the_latest_time_it_named() -> None:
    bench = Bench("a", "b")
    first, second = bench.begin("a"), bench.begin("a")
    second.note_rest(30.0)
    first.note_rest(1.0)
    for trial in (first, second):
        trial.end()
    bench.now_s += 29.9
    assert set(bench.shares(50)) == {"b"}
    bench.now_s += 0.2
    assert set(bench.shares(50)) == {"a", "b"}


def test_versions_are_counted() -> None:
    bench = Bench("a", "b")
    bench.answer("a", took_s=2.0, first_token_s=0.5)
    bench.answer("a", took_s=4.0, first_token_s=1.5)
    bench.fail("b")
    bench.begin("b").end("cancelled")
    (counts,) = bench.router.versions.values()
    assert (counts.begun, counts.answered, counts.failed, counts.abandoned) == (4, 2, 1, 1)
    assert (counts.first_tokens, counts.first_token_s_total, counts.duration_s_total) == (2, 2.0, 6.0)


@pytest.mark.parametrize("heads_start", [(0, 0, 0, 0), (0, 20, 40, 60)])
def test_a_burst_through_four_workers_is_spread_over_four_members(heads_start: tuple[int, ...]) -> None:
    """1,000 requests at one instant; no worker sees what the others send. Within 15% of the mean each."""
    workers = [Bench("a", "b", "c", "d", workers=4, seed=seed) for seed in range(4)]
    for bench in workers:
        for name, running in zip("abcd", heads_start, strict=True):
            bench.say(name, running=float(running))
    total = Counter(dict(zip("abcd", heads_start, strict=True)))
    for number in range(1000):
        bench = workers[number % 4]
        name = bench.choose()
        bench.begin(name)
        total[name] += 1
    mean = sum(total.values()) / 4
    assert all(abs(count - mean) <= 0.15 * mean for count in total.values())
