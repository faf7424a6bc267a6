"""One retry on another member before the first byte, and only then."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable

import pytest

from backends import Attempt, Pools, Timeouts, UpstreamBroken, UpstreamTimeout
from tests.backends.asking import answer, ask, events, member, pools, request, texts
from tests.scripted import CUT, HANG, RESET, ScriptedUpstream, delta

BUSY = {"error": {"message": "busy", "type": "overloaded", "param": None, "code": 503}}
Fault = Callable[[ScriptedUpstream], None]
FAULTS: dict[str, Fault] = {
    "reset": lambda upstream: upstream.reset(),
    "cut": lambda upstream: upstream.cut(),
    "500": lambda upstream: upstream.reply_json(BUSY, status=500),
    "502": lambda upstream: upstream.reply(b"", status=502),
    "503": lambda upstream: upstream.reply_json(BUSY, status=503),
    "504": lambda upstream: upstream.reply(b"<html>", status=504, content_type="text/html"),
    "not-http": lambda upstream: upstream.raw(b"SSH-2.0-OpenSSH_9.2\r\n", CUT),
}
STREAM_FAULTS: dict[str, Fault] = {
    "timeout": lambda upstream: upstream.hang(),
    "error-frame": lambda upstream: upstream.stream([BUSY, "[DONE]"]),
    "bare-done": lambda upstream: upstream.stream(["[DONE]"]),
    "no-event": lambda upstream: upstream.stream([]),
    "only-comments": lambda upstream: upstream.stream([b": hello\n\n"]),
    "cut-stream": lambda upstream: upstream.stream([CUT]),
    "reset-stream": lambda upstream: upstream.stream([RESET]),
    "silent": lambda upstream: upstream.stream([HANG]),
    "rubbish": lambda upstream: upstream.stream(["<html>"]),
}


@pytest.fixture
async def first() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture
async def second() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture
async def asked(first: ScriptedUpstream, second: ScriptedUpstream) -> AsyncIterator[Pools]:
    """Idle members share by weight, so `first` is asked first."""
    timeouts = Timeouts(connect_s=1.0, first_byte_s=0.3, idle_s=0.3)
    async with pools(
        member("first", first, weight=1e9), member("second", second), timeouts=timeouts
    ) as opened:
        yield opened
        assert opened.in_flight() == {"first": 0, "second": 0}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failure_before_the_answer_is_covered_by_another_member(
    fault: str, asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    FAULTS[fault](first)
    async with await ask(asked) as exchange:
        assert exchange.status == 200
        assert [attempt.member for attempt in exchange.attempts] == ["first", "second"]
    assert (len(first.calls), len(second.calls)) == (1, 1)


@pytest.mark.parametrize("fault", FAULTS | STREAM_FAULTS)
async def test_a_stream_that_fails_before_its_first_event_is_covered_too(
    fault: str, asked: Pools, first: ScriptedUpstream
) -> None:
    (FAULTS | STREAM_FAULTS)[fault](first)
    exchange = await ask(asked, stream=True)
    assert exchange.member == "second"
    assert "word0" in "".join(await texts(exchange))


@pytest.mark.parametrize(
    ("fault", "word"),
    {
        "reset": "reset",
        "timeout": "timeout",
        "503": "status",
        "not-http": "not-http",
        "error-frame": "error-frame",
        "bare-done": "empty-stream",
        "reset-stream": "cut",
        "silent": "timeout",
    }.items(),
)
async def test_the_attempt_tells_what_went_wrong(
    fault: str, word: str, asked: Pools, first: ScriptedUpstream
) -> None:
    (FAULTS | STREAM_FAULTS)[fault](first)
    async with await ask(asked, stream=True) as exchange:
        failed, answered = exchange.attempts
    assert (failed.number, failed.error) == (1, word)
    assert failed.ended_s is not None
    assert (answered.number, answered.error) == (2, None)


async def test_a_refused_connection_is_covered(asked: Pools, first: ScriptedUpstream) -> None:
    await first.stop()
    async with await ask(asked) as exchange:
        assert [attempt.error for attempt in exchange.attempts] == ["connect", None]


async def test_a_member_that_refused_is_not_asked_again_for_a_moment(
    asked: Pools, first: ScriptedUpstream
) -> None:
    await first.stop()
    attempts = 0
    for _ in range(10):
        async with await ask(asked) as exchange:
            attempts += len(exchange.attempts)
    assert attempts == 11


async def test_members_that_all_refused_are_still_asked(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    await first.stop()
    await second.stop()
    with pytest.raises(UpstreamBroken):
        await ask(asked)
    await second.start()
    assert (await answer(asked))["choices"]


@pytest.mark.parametrize("status", [400, 401, 404, 408, 413, 422, 429])
async def test_a_refusal_is_an_answer(
    status: int, asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.reply_json({"error": {"message": "your fault"}}, status=status, retry_after="7")
    async with await ask(asked, stream=True) as exchange:
        assert exchange.status == status
        assert exchange.headers["Retry-After"] == "7"
        assert json.loads(await exchange.read(1000))["error"]["message"] == "your fault"
    assert second.calls == []


async def test_the_last_server_error_is_returned_with_its_body(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.reply_json({}, status=500)
    second.reply_json(BUSY, status=503)
    async with await ask(asked) as exchange:
        assert (exchange.status, exchange.member) == (503, "second")
        assert json.loads(await exchange.read(1000)) == BUSY
        assert [attempt.error for attempt in exchange.attempts] == ["status", "status"]


async def test_failures_of_all_attempts_are_raised_with_them(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.reset()
    second.cut()
    with pytest.raises(UpstreamBroken) as caught:
        await ask(asked)
    assert [attempt.member for attempt in caught.value.attempts] == ["first", "second"]


async def test_there_are_never_more_than_two_attempts(first: ScriptedUpstream) -> None:
    first.reply_json(BUSY, status=503, times=10)
    async with pools(*(member(name, first) for name in "abcd")) as asked, await ask(asked) as exchange:
        assert len(exchange.attempts) == 2
    assert len(first.calls) == 2


async def test_a_single_member_is_not_asked_twice(first: ScriptedUpstream) -> None:
    first.cut(times=2)
    async with pools(member("only", first)) as asked:
        with pytest.raises(UpstreamBroken):
            await ask(asked)
    assert len(first.calls) == 1


async def test_both_attempts_share_one_deadline(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.hang()
    second.hang()
    started_s = time.monotonic()
    with pytest.raises(UpstreamTimeout) as caught:
        await ask(asked, stream=True, within_s=0.35)
    assert time.monotonic() - started_s < 0.55
    assert len(caught.value.attempts) == 2


async def test_a_whole_answer_may_take_until_the_deadline(asked: Pools, first: ScriptedUpstream) -> None:
    """Its head comes with it: the time-out for first bytes would throw away a long generation."""
    first.first_byte_delay_s = 0.6
    async with await ask(asked) as exchange:
        assert exchange.member == "first"
        assert len(exchange.attempts) == 1


async def test_a_whole_answer_that_misses_the_deadline_is_not_begun_again(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.hang()
    with pytest.raises(UpstreamTimeout):
        await ask(asked, within_s=0.4)
    assert second.calls == []


async def test_a_passed_deadline_sends_nothing(asked: Pools, first: ScriptedUpstream) -> None:
    with pytest.raises(UpstreamTimeout):
        await ask(asked, within_s=-1.0)
    assert first.calls == []


async def test_after_the_first_event_nothing_is_retried(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.stream([delta("alpha "), delta("beta "), RESET])
    exchange = await ask(asked, stream=True)
    with pytest.raises(UpstreamBroken, match="first"):
        await events(exchange)
    assert second.calls == []


async def test_each_attempt_has_its_own_headers_and_its_members_model(
    first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.reply_json(BUSY, status=503)
    listed = member("first", first, upstream_model="org/a", weight=1e9), member("second", second)
    async with pools(*listed) as asked:
        await answer(asked)
    sent = [
        (upstream.calls[0].headers["x-request-id"], upstream.calls[0].json["model"])
        for upstream in (first, second)
    ]
    assert sent == [("r-1", "org/a"), ("r-2", "m")]


async def test_a_stale_connection_costs_no_attempt(first: ScriptedUpstream) -> None:
    """The server hangs up on an idle connection just as the next request comes over it."""
    async with pools(member("only", first)) as asked:
        await answer(asked)
        first.cut()
        async with await ask(asked) as exchange:
            assert len(exchange.attempts) == 1
    reused, fresh = first.calls[1:]
    assert reused.connection == first.calls[0].connection
    assert fresh.connection != reused.connection


async def test_a_fresh_connection_that_breaks_does_cost_the_attempt(first: ScriptedUpstream) -> None:
    first.cut()
    async with pools(member("only", first)) as asked:
        with pytest.raises(UpstreamBroken):
            await ask(asked)
    assert len(first.calls) == 1


async def test_a_cancelled_caller_can_tell_what_was_tried(
    asked: Pools, first: ScriptedUpstream, second: ScriptedUpstream
) -> None:
    first.reset()
    second.hang()
    attempts: list[Attempt] = []
    opening = asyncio.create_task(
        asked.open(asked.resolve("m"), request(), deadline_s=time.monotonic() + 5, attempts=attempts)
    )
    await second.wait_calls(1)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [attempt.error for attempt in attempts] == ["reset", "cancelled"]
