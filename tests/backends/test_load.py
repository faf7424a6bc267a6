"""Load: who is asked when, and that every count comes back whatever becomes of the request."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from backends import Exchange, Pools, Timeouts, UpstreamFailed
from tests.backends.asking import answer, ask, events, member, pools
from tests.scripted import HANG, RESET, ScriptedUpstream, delta

Work = Coroutine[Any, Any, object]
Accident = Callable[[Pools, ScriptedUpstream], Work]


@pytest.fixture
async def servers() -> AsyncIterator[list[ScriptedUpstream]]:
    async with ScriptedUpstream() as s0, ScriptedUpstream() as s1, ScriptedUpstream() as s2:
        yield [s0, s1, s2]


@pytest.fixture
async def asked(servers: list[ScriptedUpstream]) -> AsyncIterator[Pools]:
    timeouts = Timeouts(connect_s=1.0, first_byte_s=0.3, idle_s=0.3)
    async with pools(
        *(member(f"s{i}", server) for i, server in enumerate(servers)), timeouts=timeouts
    ) as opened:
        yield opened


async def test_single_calls_one_after_the_other_are_shared_evenly(
    asked: Pools, servers: list[ScriptedUpstream]
) -> None:
    for _ in range(150):
        await answer(asked)
    assert min(len(server.calls) for server in servers) >= 30


async def test_a_burst_is_spread_evenly(servers: list[ScriptedUpstream]) -> None:
    for server in servers:
        server.first_byte_delay_s = 0.2
    # Sixty calls at once on a busy machine: what is late here is the machine.
    patient = Timeouts(connect_s=10.0, first_byte_s=10.0, idle_s=10.0)
    async with pools(*(member(f"s{i}", s) for i, s in enumerate(servers)), timeouts=patient) as asked:
        await asyncio.gather(*(answer(asked) for _ in range(60)))
    counts = [len(server.calls) for server in servers]
    assert max(counts) / min(counts) <= 1.5


async def test_long_streams_count_until_they_end(servers: list[ScriptedUpstream]) -> None:
    async with pools(member("s0", servers[0]), member("s1", servers[1])) as asked:
        servers[0].stream([delta("a"), HANG], times=5)
        servers[1].stream([delta("a"), HANG], times=5)
        streams = [await ask(asked, stream=True) for _ in range(5)]
        busy, idle = Counter(stream.member for stream in streams).most_common()
        assert (busy[1], idle[1]) == (3, 2)  # one after the other, to whoever has less
        for stream in streams:
            if stream.member == idle[0]:
                await stream.aclose()
        async with await ask(asked) as exchange:
            assert exchange.member == idle[0]
        for stream in streams:
            await stream.aclose()
        assert asked.in_flight() == {"s0": 0, "s1": 0}


async def leaves_before_the_head(asked: Pools, server: ScriptedUpstream) -> None:
    server.hang()
    await cancelled(ask(asked), server)


async def leaves_mid_stream(asked: Pools, server: ScriptedUpstream) -> None:
    server.stream([delta("a"), HANG])
    exchange = await ask(asked, stream=True)
    await cancelled(events(exchange), server)


async def upstream_resets(asked: Pools, server: ScriptedUpstream) -> None:
    server.stream([delta("a"), RESET])
    await fails(events(await ask(asked, stream=True)))


async def upstream_is_late(asked: Pools, server: ScriptedUpstream) -> None:
    server.hang()
    await fails(ask(asked, stream=True))


async def caller_has_a_bug(asked: Pools, server: ScriptedUpstream) -> None:
    server.stream([delta("a"), HANG])
    exchange = await ask(asked, stream=True)
    with pytest.raises(ZeroDivisionError):
        await trip_over(exchange)


async def trip_over(exchange: Exchange) -> None:
    async with exchange:
        async for _ in exchange.batches():
            raise ZeroDivisionError


async def cancelled(work: Work, server: ScriptedUpstream) -> None:
    task = asyncio.create_task(work)
    await server.wait_calls(1)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task])


async def fails(work: Work) -> None:
    with pytest.raises(UpstreamFailed):
        await work


@pytest.mark.parametrize(
    "accident",
    [leaves_before_the_head, leaves_mid_stream, upstream_resets, upstream_is_late, caller_has_a_bug],
)
async def test_every_count_comes_back(accident: Accident, servers: list[ScriptedUpstream]) -> None:
    server = servers[0]
    timeouts = Timeouts(connect_s=1.0, first_byte_s=2.0, idle_s=0.5)
    async with pools(member("only", server), timeouts=timeouts) as asked:
        await asyncio.gather(*(accident(asked, server) for _ in range(20)))
        assert asked.in_flight() == {"only": 0}


async def test_a_killed_server_costs_no_request(asked: Pools, servers: list[ScriptedUpstream]) -> None:
    await answer(asked)
    await servers[1].stop()
    statuses = []
    for _ in range(50):
        async with await ask(asked) as exchange:
            statuses.append(exchange.status)
            await exchange.read(1 << 20)
    assert statuses == [200] * 50
    await servers[1].start()


async def test_the_pool_shows_itself(asked: Pools) -> None:
    async with await ask(asked) as exchange:
        assert f"{exchange.member}@1=1" in repr(asked)
        assert exchange.member in repr(exchange)
    assert "http" not in repr(asked)
