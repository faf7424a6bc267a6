"""Pools that change while requests run, and what they tell of themselves."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from backends import Affinity, Capabilities, Exchange, Member, Needs, NoBackend, Pool, Pools, Signals, Version
from backends.testing import FakeBackend
from tests.backends.asking import PATH, request
from tests.backends.routers import a_member

A, B, C = (a_member(name) for name in "abc")


@pytest.fixture
def backend() -> FakeBackend:
    return FakeBackend()


@pytest.fixture
async def asked(backend: FakeBackend) -> AsyncIterator[Pools]:
    async with Pools({"m": [A, B]}, backend=backend, rng=random.Random(1)) as pools:
        yield pools


async def opened(pools: Pools, version: Version | None = None) -> Exchange:
    deadline_s = time.monotonic() + 10
    return await pools.open(version or pools.resolve("m"), request(), deadline_s=deadline_s)


async def asked_members(pools: Pools, times: int = 20) -> set[str]:
    seen = set()
    for _ in range(times):
        async with await opened(pools) as exchange:
            seen.add(exchange.member)
    return seen


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


async def test_new_members_are_asked_at_once_and_old_ones_no_more(asked: Pools) -> None:
    asked.update({"m": [C]})
    assert await asked_members(asked) == {"c"}


async def test_a_request_under_way_finishes_where_it_is(asked: Pools) -> None:
    exchange = await opened(asked)
    asked.update({"m": [C]})
    assert asked.in_flight() == {"c": 0, exchange.member: 1}
    assert await exchange.read(100) == b"{}"
    exchange.close()
    assert asked.in_flight() == {"c": 0}


async def test_models_come_and_go(asked: Pools) -> None:
    asked.update({"n": [A]})
    assert asked.models() == ["n"]
    assert asked.resolve("n") == Version("n", "1")


async def test_a_configuration_that_cannot_work_is_refused_and_changes_nothing(asked: Pools) -> None:
    for wrong in ([], [A, A], [a_member("a", weight=0.0)]):
        with pytest.raises(ValueError, match=r"'[am]'"):
            asked.update({"m": wrong})
    assert await asked_members(asked) == {"a", "b"}


async def test_a_version_that_was_taken_out_meanwhile_has_no_backend(asked: Pools) -> None:
    version = asked.resolve("m")
    asked.update({"m": [Member("d", "http://d", "m", "2")]})
    with pytest.raises(NoBackend):
        await opened(asked, version)


async def test_a_new_member_without_a_revision_is_asked_for_one(asked: Pools, backend: FakeBackend) -> None:
    backend.page("d", "/v1/models", b'{"data": [{"id": "m", "root": "org/m"}]}')
    asked.update({"m": [Member("d", "http://d", "m")]})
    await until(lambda: asked.resolve("m").revision.startswith("guess-"))
    assert await asked_members(asked) == {"d"}


async def test_a_known_revision_is_not_asked_for_again_to_answer(backend: FakeBackend) -> None:
    """A reload must not make every cached answer unreachable for as long as servers take to tell who they are."""
    backend.page("d", "/v1/models", b'{"data": [{"id": "m", "root": "org/m"}]}')
    listed = [Member("d", "http://d", "m")]
    async with Pools({"m": listed}, backend=backend) as pools:
        before = pools.resolve("m")
        pools.update({"m": listed, "n": [C]})
        assert pools.resolve("m") == before


async def test_drained_members_get_nothing(asked: Pools) -> None:
    asked.update({"m": Pool((A, B), drained={"a": "preemption"})})
    assert await asked_members(asked) == {"b"}
    assert [(one.member, one.state, one.drained_for) for one in asked.members()] == [
        ("a", "drained", "preemption"),
        ("b", "active", None),
    ]
    assert "a@1=0 (drained)" in repr(asked)


async def test_recoveries_are_told_once(asked: Pools) -> None:
    asked.update({"m": Pool((A, B), drained={"a": "preemption"})})
    assert [one.cause for one in asked.take_recoveries()] == ["preemption"]
    assert asked.take_recoveries() == []


async def test_a_version_whose_members_are_all_drained_is_not_resolved_to(backend: FakeBackend) -> None:
    old, new = Member("old", "http://o", "m", "1"), Member("new", "http://n", "m", "2")
    pool = Pool((old, new), version_weights={"1": 70, "2": 30})
    async with Pools({"m": pool}, backend=backend, rng=random.Random(1)) as pools:
        drawn = Counter(pools.resolve("m").revision for _ in range(1000))
        assert drawn["1"] / 1000 == pytest.approx(0.7, abs=0.05)
        pools.update({"m": Pool((old, new), drained={"old": "admin"})})
        assert {pools.resolve("m", sticky=str(key)).revision for key in range(50)} == {"2"}


async def test_only_versions_that_can_serve_a_request_are_resolved_to(backend: FakeBackend) -> None:
    eyes = Capabilities(modalities=frozenset({"image"}))
    blind, seeing = Member("a", "http://a", "m", "1"), Member("b", "http://b", "m", "2", capabilities=eyes)
    async with Pools({"m": [blind, seeing]}, backend=backend, rng=random.Random(1)) as pools:
        needs = Needs(modalities=frozenset({"image"}))
        assert {pools.resolve("m", needs=needs).revision for _ in range(50)} == {"2"}


async def test_a_choice_is_explained_without_being_made(asked: Pools, backend: FakeBackend) -> None:
    asked.update_signals([Signals("a", time.monotonic(), 1.0, "ok", running=7.0, kv_usage=0.5)])
    told = asked.explain("m")
    assert (told.version, told.policy, told.member) == (Version("m", "1"), "least-load", "b")
    assert {one.member: one.score for one in told.candidates} == {"a": 7.0, "b": 0.0}
    assert told.passed_over == {"a": "usable, and not chosen this time"}
    assert [(one.member, one.load, one.standing, one.breaker) for one in told.members] == [
        ("a", 7.0, "in", "closed"),
        ("b", 0.0, "in", "closed"),
    ]
    assert told.members[0].signals is not None
    assert backend.sent == []
    assert asked.in_flight() == {"a": 0, "b": 0}
    assert asked.version_counts() == {}


async def test_explaining_says_why_others_are_passed_over(backend: FakeBackend) -> None:
    listed = (
        A,
        B,
        a_member("failing"),
        a_member("spare", tier=1),
        a_member("small", capabilities=Capabilities(max_context=10)),
        Member("newer", "http://newer", "m", "2"),
    )
    pool = Pool(listed, version_weights={"1": 1.0, "2": 0.0}, drained={"b": "maintenance"})
    async with Pools({"m": pool}, backend=backend, rng=random.Random(1)) as pools:
        pools.update_signals([Signals("failing", time.monotonic(), 1.0, "failing")])
        told = pools.explain("m", needs=Needs(context_tokens=100))
    assert told.member == "a"
    assert told.reason == "the only usable member"
    assert told.passed_over == {
        "b": "drained: maintenance",
        "failing": "left out: ejected",
        "spare": "of a lower tier",
        "small": "cannot serve this request",
        "newer": "serves another version",
    }


async def test_explaining_tells_of_sessions_and_prefixes(backend: FakeBackend) -> None:
    async with Pools({"m": Pool((A, B), policy="prefix")}, backend=backend) as pools:
        assert pools.explain("m", affinity=Affinity(session="s")).reason == "the member of its session"
        assert "prefix" in pools.explain("m", affinity=Affinity(prefix="p")).reason
        assert pools.explain("m").reason == "chosen by prefix among 2 usable members"


async def test_requests_of_a_session_go_to_one_member_and_their_retry_to_another(
    asked: Pools, backend: FakeBackend
) -> None:
    sent = request()
    mine = type(sent)(PATH, sent.body, sent.headers, is_stream=False, affinity=Affinity(session="s"))
    members = []
    for _ in range(10):
        async with await asked.open(asked.resolve("m"), mine, deadline_s=time.monotonic() + 10) as exchange:
            members.append(exchange.member)
    assert len(set(members)) == 1
    backend.reply(members[0], status=503)
    async with await asked.open(asked.resolve("m"), mine, deadline_s=time.monotonic() + 10) as exchange:
        assert exchange.member != members[0]


async def test_versions_are_counted(asked: Pools, backend: FakeBackend) -> None:
    for _ in range(3):
        async with await opened(asked) as exchange:
            await exchange.read(100)
    for name in "ab":
        backend.reply(name, status=500)
    await (await opened(asked)).aclose()
    (counts,) = asked.version_counts().values()
    assert (counts.begun, counts.answered, counts.failed, counts.abandoned) == (5, 3, 2, 0)


async def test_a_refusal_says_nothing_against_the_member_and_nothing_of_its_pace(
    asked: Pools, backend: FakeBackend
) -> None:
    for _ in range(20):
        for name in "ab":
            backend.reply(name, b"{}", status=400)
        async with await opened(asked) as exchange:
            await exchange.read(100)
    assert [(one.errors, one.breaker, one.pace) for one in asked.members()] == [(0.0, "closed", 1.0)] * 2
    (counts,) = asked.version_counts().values()
    assert (counts.answered, counts.failed) == (0, 0)


async def test_retries_stop_when_the_budget_is_used_up(asked: Pools, backend: FakeBackend) -> None:
    for name in "ab":
        for _ in range(400):
            backend.reply(name, status=500)
    attempts = 0
    for _ in range(200):
        async with await opened(asked) as exchange:
            attempts += len(exchange.attempts)
    assert 200 + 30 <= attempts <= 200 + 30 + 40 + 20  # three a second for ten seconds, and a fifth of all


@pytest.mark.parametrize("heads_start", [(0, 0, 0, 0), (0, 20, 40, 60)])
async def test_a_burst_of_a_thousand_through_four_workers_is_spread(heads_start: tuple[int, ...]) -> None:
    """At one instant, between two scrapes; within 15% of the mean at each of four members."""
    listed = [a_member(name) for name in "abcd"]
    said = [
        Signals(name, time.monotonic(), 60.0, "ok", running=float(running))
        for name, running in zip("abcd", heads_start, strict=True)
    ]
    workers = [
        Pools({"m": listed}, backend=FakeBackend(), rng=random.Random(seed), live_workers=lambda: 4)
        for seed in range(4)
    ]
    for worker in workers:
        worker.update_signals(said)
    exchanges = await asyncio.gather(*(opened(workers[number % 4]) for number in range(1000)))
    total = Counter(dict(zip("abcd", heads_start, strict=True)))
    total.update(exchange.member for exchange in exchanges)
    mean = sum(total.values()) / 4
    assert all(abs(count - mean) <= 0.15 * mean for count in total.values())
    for exchange in exchanges:
        exchange.close()
    assert all(set(worker.in_flight().values()) == {0} for worker in workers)
