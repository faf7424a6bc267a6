"""Troubles that other gateways had with their backends, one by one; each number is that of a known report.

Those that are a matter of single parts have their tests there: counts that come back (C130) and killed servers (C131)
in test_load, ties (C126) there and in test_policies, probes (C134) in test_poller, nothing repeated after the first
byte (C139) and failures inside a 200 (C147) in test_retry, moved names (C144) in test_connections.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from backends import Pools, Timeouts, UpstreamFailed
from backends.testing import FakeBackend
from tests.backends.asking import ask, events, member, pools, request
from tests.backends.routers import Bench, a_member
from tests.scripted import HANG as SILENCE
from tests.scripted import RESET, ScriptedUpstream, delta


@pytest.fixture
async def servers() -> AsyncIterator[list[ScriptedUpstream]]:
    async with ScriptedUpstream() as first, ScriptedUpstream() as second:
        yield [first, second]


def test_c125_workers_that_see_nothing_of_each_other_split_a_burst_evenly() -> None:
    workers = [Bench("a", "b", workers=4, seed=seed) for seed in range(4)]
    total: Counter[str] = Counter()
    for number in range(40):
        name = workers[number % 4].choose()
        workers[number % 4].begin(name)
        total[name] += 1
    assert max(total.values()) <= 24


def test_c125_what_a_killed_worker_had_open_is_forgotten_with_the_next_scrape() -> None:
    bench = Bench("a", "b", workers=2)
    bench.say("a", running=20.0)
    bench.say("b", running=10.0)
    assert bench.choose() == "b"
    bench.now_s += 0.25
    bench.say("a", running=0.0)
    assert bench.choose() == "a"


def test_c127_between_scrapes_a_burst_is_not_sent_to_one_member() -> None:
    bench = Bench("a", "b", "c")
    for name in "abc":
        bench.say(name, running=4.0, interval_s=5.0)
    total: Counter[str] = Counter()
    for _ in range(60):
        bench.now_s += 0.003
        name = bench.choose()
        bench.begin(name)
        total[name] += 1
    assert max(total.values()) <= 1.5 * min(total.values())


async def test_c128_long_streams_keep_short_calls_away_and_breaking_off_counts(
    servers: list[ScriptedUpstream],
) -> None:
    servers[0].stream([delta("a"), SILENCE], times=5)
    async with pools(member("long", servers[0]), member("other", servers[1])) as asked:
        asked.update({"m": [member("long", servers[0])]})
        streams = [await ask(asked, stream=True) for _ in range(5)]
        asked.update({"m": [member("long", servers[0]), member("other", servers[1])]})
        for _ in range(5):
            async with await ask(asked) as exchange:
                assert exchange.member == "other"
        for stream in streams:
            await stream.aclose()
        servers[0].stream([delta("a"), RESET])
        asked.update({"m": [member("long", servers[0])]})
        with pytest.raises(UpstreamFailed):
            await events(await ask(asked, stream=True))
        assert asked.members()[0].errors > 0


async def test_c131_a_member_that_comes_back_is_used_again(servers: list[ScriptedUpstream]) -> None:
    async with pools(member("a", servers[0]), member("b", servers[1])) as asked:
        await servers[1].stop()
        statuses = []
        for _ in range(20):
            async with await ask(asked) as exchange:
                statuses.append(exchange.status)
        assert set(statuses) == {200}
        assert len(servers[1].calls) == 0
        await servers[1].start()
        deadline_s = time.monotonic() + 30
        while not servers[1].calls:
            assert time.monotonic() < deadline_s
            async with await ask(asked) as exchange:
                assert exchange.status == 200
            await asyncio.sleep(0.02)


async def test_c133_a_server_that_is_healthy_but_never_answers_is_left_out() -> None:
    """Only its silence on requests tells. One request at a time tries whether it is still silent."""
    backend = FakeBackend()
    backend.page("stuck", "/health")
    for _ in range(100):
        backend.hang("stuck")
    listed = [a_member("stuck", weight=1e9), a_member("fine")]
    timeouts = Timeouts(first_byte_s=0.02)
    async with Pools({"m": listed}, backend=backend, timeouts=timeouts, rng=random.Random(1)) as asked:
        for _ in range(60):
            backend.reply("fine", b'data: {"choices":[]}\n\n', content_type="text/event-stream")
            sent = await asked.open(
                asked.resolve("m"), request(stream=True), deadline_s=time.monotonic() + 20
            )
            assert sent.member == "fine"
            await sent.aclose()
    assert Counter(name for name, _ in backend.sent)["stuck"] <= 6


@pytest.mark.parametrize("word", ["status", "connect", "timeout"])
def test_c136_after_one_blip_of_all_members_the_next_request_is_tried(word: str) -> None:
    bench = Bench("a", "b", "c")
    for name in "abc":
        bench.fail(name, word, times=5)
    assert len(bench.shares(100)) == 3


def test_c137_a_member_that_always_fails_sees_only_trials_once_that_is_known() -> None:
    bench = Bench(a_member("bad", weight=200.0), "fine")
    asked = 0
    for _ in range(120):
        bench.now_s += 0.5
        if bench.choose() == "bad":
            bench.fail("bad")
            asked += 1
        else:
            bench.answer("fine")
    assert 5 <= asked <= 5 + 5  # to open it, and after 2, 4, 8, 16 and 32 seconds


async def test_c135_under_lasting_trouble_nothing_leaks_and_requests_go_on() -> None:
    """A thousand requests, 5% of them abandoned, 5% reset, 1% silent."""
    backend, rng = FakeBackend(), random.Random(5)
    broken = UpstreamFailed("closed the connection", reason="reset")
    listed = [a_member(name) for name in "abc"]
    timeouts = Timeouts(first_byte_s=0.05)
    answered = 0
    async with Pools({"m": listed}, backend=backend, timeouts=timeouts, rng=rng) as asked:

        async def one(luck: float) -> int:
            sent = request(stream=True)
            opening = asked.open(asked.resolve("m"), sent, deadline_s=time.monotonic() + 30)
            task = asyncio.create_task(opening)
            await asyncio.sleep(0)
            if luck < 0.05:
                task.cancel()
            try:
                exchange = await task
            except (asyncio.CancelledError, UpstreamFailed):
                return 0
            await exchange.aclose()
            return 1

        for batch in range(50):
            for name in "abc":
                for _ in range(20):
                    luck = rng.random()
                    if luck < 0.05:
                        backend.fail(name, broken)
                    elif luck < 0.06:
                        backend.hang(name)
                    else:
                        backend.reply(name, b'data: {"choices":[]}\n\n', content_type="text/event-stream")
            answered += sum(await asyncio.gather(*(one(rng.random()) for _ in range(20))))
            assert set(asked.in_flight().values()) == {0}, f"after batch {batch}"
    assert answered > 900


def test_c148_a_fresh_member_is_not_flooded_while_it_is_still_warming() -> None:
    bench = Bench("a", "b")
    for name in "ab":
        for _ in range(10):
            bench.begin(name)
    bench.update("a", "b", "fresh")
    for _ in range(30):
        bench.begin(bench.choose())
    assert bench.router["fresh"].in_flight.count <= 2
    for name in ("a", "b", "fresh"):
        bench.answer(name, took_s=20.0)
    assert bench.router["fresh"].weight < 0.2  # and from here on a little more every second
