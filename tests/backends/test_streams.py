"""What a caller reads of an answer, and what the server sees when it stops reading."""

from __future__ import annotations

import asyncio
import gzip
import json
import time
from collections.abc import AsyncIterator

import pytest

from backends import Event, Pools, Timeouts, UpstreamBroken, UpstreamTimeout
from tests.backends.asking import ask, events, member, pools, texts
from tests.scripted import CUT, HANG, RESET, Call, Part, ScriptedUpstream, Wire, delta

TIMEOUTS = Timeouts(connect_s=1.0, first_byte_s=1.0, idle_s=0.2)


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


@pytest.fixture
async def asked(upstream: ScriptedUpstream) -> AsyncIterator[Pools]:
    async with pools(member("only", upstream), timeouts=TIMEOUTS) as opened:
        yield opened
        assert opened.in_flight() == {"only": 0}


async def test_all_events_arrive_in_order(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([*(delta(str(i)) for i in range(200)), "[DONE]"])
    assert await texts(await ask(asked, stream=True)) == [str(i) for i in range(200)]


async def test_a_slow_reader_gets_all_events(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([*(delta(str(i)) for i in range(5)), "[DONE]"])
    seen = []
    async with await ask(asked, stream=True) as exchange:
        async for batch in exchange.batches():
            seen += batch
            await asyncio.sleep(0.06)  # together longer than the idle timeout
    assert len(seen) == 6


async def test_what_arrives_together_is_one_batch(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([b"data: {}\n\n" * 50])
    async with await ask(asked, stream=True) as exchange:
        assert [len(batch) async for batch in exchange.batches()] == [50]


async def test_comments_are_no_events(asked: Pools, upstream: ScriptedUpstream) -> None:
    working = b": still working\n\n"
    upstream.stream([working, working, working, delta("a"), working, delta("b"), "[DONE]"])
    assert await texts(await ask(asked, stream=True)) == ["a", "b"]


async def test_comments_keep_a_silent_stream_alive(asked: Pools, upstream: ScriptedUpstream) -> None:
    waiting: list[Part] = [0.1, b": still working\n\n"]
    upstream.stream([delta("a"), *waiting * 4, delta("b"), "[DONE]"])
    assert await texts(await ask(asked, stream=True)) == ["a", "b"]


async def test_choice_indexes_pass_through(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([*(delta("x", index=i) for i in (2, 0, 1)), "[DONE]"])
    seen = [json.loads(event.data) for event in (await events(await ask(asked, stream=True)))[:-1]]
    assert [chunk["choices"][0]["index"] for chunk in seen] == [2, 0, 1]


async def test_event_bytes_are_untouched(asked: Pools, upstream: ScriptedUpstream) -> None:
    odd = b'{"a": 1.0e+2,"b" : "\\u00e9\\ud83d"}'
    upstream.stream([b"data: " + odd + b"\n\n"])
    assert await events(await ask(asked, stream=True)) == [Event(odd)]


async def test_a_silent_stream_ends_with_a_timeout(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), delta("b"), HANG])
    exchange = await ask(asked, stream=True)
    with pytest.raises(UpstreamTimeout) as caught:
        await events(exchange)
    assert caught.value.reason == "idle"
    assert exchange.attempts[0].error == "idle"
    assert asked.in_flight() == {"only": 0}
    await upstream.calls[0].wait_closed(1.0)


async def test_the_deadline_bounds_a_stream_that_goes_on(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), 0.05] * 100)
    with pytest.raises(UpstreamTimeout) as caught:
        await events(await ask(asked, stream=True, within_s=0.3))
    assert caught.value.reason == "deadline"


@pytest.mark.parametrize("accident", [CUT, RESET])
async def test_a_stream_cut_short_raises(accident: Part, asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), delta("b"), accident])
    exchange = await ask(asked, stream=True)
    with pytest.raises(UpstreamBroken) as caught:
        await events(exchange)
    assert caught.value.reason == "cut"
    assert caught.value.attempts == exchange.attempts


async def test_an_accident_after_done_is_none(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), "[DONE]", RESET])
    assert await texts(await ask(asked, stream=True)) == ["a"]


async def test_a_server_that_holds_on_after_done_is_let_go(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), "[DONE]", HANG])
    assert await texts(await ask(asked, stream=True)) == ["a"]
    await upstream.calls[0].wait_closed(1.0)


async def test_an_endless_event_is_refused(upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), b"data: " + b"x" * 5000, HANG])
    async with pools(member("only", upstream), max_event_bytes=1000) as asked:
        with pytest.raises(UpstreamBroken) as caught:
            await events(await ask(asked, stream=True))
    assert caught.value.reason == "too-large"


async def test_closing_in_the_middle_hangs_up(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), HANG])
    async with await ask(asked, stream=True) as exchange:
        async for _ in exchange.batches():
            break
        assert asked.in_flight() == {"only": 1}
    assert asked.in_flight() == {"only": 0}
    await upstream.calls[0].wait_closed(1.0)


async def test_cancelling_a_reader_hangs_up(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a"), HANG])
    reader = asyncio.create_task(events(await ask(asked, stream=True)))
    await asyncio.sleep(0.02)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    await upstream.calls[0].wait_closed(1.0)


@pytest.mark.parametrize("stream", [False, True])
async def test_cancelling_before_the_answer_hangs_up(
    stream: bool, asked: Pools, upstream: ScriptedUpstream
) -> None:
    upstream.hang()
    opening = asyncio.create_task(ask(asked, stream=stream))
    await upstream.wait_calls(1)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await upstream.calls[0].wait_closed(1.0)


async def test_cancelling_before_the_first_event_hangs_up(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([b": wait\n\n", HANG])
    opening = asyncio.create_task(ask(asked, stream=True))
    await upstream.wait_calls(1)
    await asyncio.sleep(0.05)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    await upstream.calls[0].wait_closed(1.0)


async def test_a_connection_read_to_its_end_is_used_again(asked: Pools, upstream: ScriptedUpstream) -> None:
    for stream in (True, False, True):
        async with await ask(asked, stream=stream) as exchange:
            if exchange.is_stream:
                assert [batch async for batch in exchange.batches()]
            else:
                await exchange.read(1 << 20)
    assert len({call.connection for call in upstream.calls}) == 1


async def test_a_connection_is_used_again_though_its_reader_stopped_at_done(
    asked: Pools, upstream: ScriptedUpstream
) -> None:
    upstream.stream([delta("a"), "[DONE]", 0.02], times=3)
    for _ in range(3):
        async with await ask(asked, stream=True) as exchange:
            async for batch in exchange.batches():
                if batch[-1].data == b"[DONE]":
                    break
    assert len({call.connection for call in upstream.calls}) == 1


async def test_a_body_longer_than_allowed_is_refused(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.reply(b"x" * 5000)
    async with await ask(asked) as exchange:
        with pytest.raises(UpstreamBroken) as caught:
            await exchange.read(4999)
    assert caught.value.reason == "too-large"


async def test_a_body_cut_short_is_no_answer(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{}", CUT)
    async with await ask(asked) as exchange:
        with pytest.raises(UpstreamBroken):
            await exchange.read(1000)


async def test_a_body_that_stalls_ends_with_a_timeout(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.raw(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{}", HANG)
    async with await ask(asked) as exchange:
        with pytest.raises(UpstreamTimeout):
            await exchange.read(1000)


async def test_bodies_are_not_unpacked(asked: Pools, upstream: ScriptedUpstream) -> None:
    packed = gzip.compress(b"{}")
    upstream.reply(packed, content_encoding="gzip")
    async with await ask(asked) as exchange:
        assert await exchange.read(1000) == packed


async def test_a_redirect_is_an_answer(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.reply_json({}, status=307, location="/elsewhere")
    async with await ask(asked) as exchange:
        assert exchange.status == 307


async def test_only_a_200_of_events_is_a_stream(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([delta("a")], status=400)
    async with await ask(asked, stream=True) as exchange:
        assert not exchange.is_stream
    upstream.reply_json({})
    async with await ask(asked, stream=True) as exchange:
        assert not exchange.is_stream
        assert exchange.content_type == "application/json"


async def test_the_first_byte_is_timed(asked: Pools, upstream: ScriptedUpstream) -> None:
    upstream.stream([0.05, delta("a"), "[DONE]"])
    exchange = await ask(asked, stream=True)
    (attempt,) = exchange.attempts
    await events(exchange)
    assert attempt.first_byte_s is not None
    assert attempt.ended_s is not None
    assert 0.04 < attempt.first_byte_s - attempt.started_s < 0.5
    assert attempt.ended_s >= attempt.first_byte_s


async def test_patience_before_the_first_event_is_that_of_the_first_byte(
    asked: Pools, upstream: ScriptedUpstream
) -> None:
    upstream.stream([0.4, delta("a"), "[DONE]"])  # the head comes at once; longer than the idle timeout
    assert await texts(await ask(asked, stream=True)) == ["a"]


async def test_an_unread_stream_does_not_pile_up(asked: Pools, upstream: ScriptedUpstream) -> None:
    sent = 0

    async def flood(_: Call, wire: Wire) -> None:
        nonlocal sent
        await wire.head(content_type="text/event-stream", transfer_encoding="chunked")
        while wire.unsent_bytes < 1 << 20:
            await wire.chunk(delta("x" * 60_000))
            sent += 60_000
        await wire.cue(HANG)

    upstream.script(flood)
    started_s = time.monotonic()
    async with await ask(asked, stream=True):
        while sent < 1 << 20 or upstream.active == 0:
            assert time.monotonic() - started_s < 5
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        assert sent < 32 << 20
