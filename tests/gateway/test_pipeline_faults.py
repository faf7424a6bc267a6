"""What a request lives through: stores that die, backends that break, clients that leave, and what is never stored."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.running import RunningGateway, answer_of, events, running_gateway, streamed_text
from tests.scripted import CUT, HANG, RESET, ScriptedUpstream, delta


async def read_stream(
    gateway: RunningGateway, content: str = "q", **fields
) -> tuple[int, list, httpx.Headers]:
    async with gateway.chat_stream(content, **fields) as reply:
        return reply.status_code, events((await reply.aread()).decode()), reply.headers


def error_of(chunks: list) -> dict:
    """The one error frame a broken stream ends with."""
    *_, last = chunks
    assert set(last) == {"error"}
    assert set(last["error"]) == {"message", "type", "param", "code"}
    return last["error"]


class TestBrokenStreams:
    @pytest.mark.parametrize(
        "ending",
        [
            [CUT],
            [RESET],
            [b"data: {not json}\n\n"],
            ["[DONE]"],
            [],
            [
                {
                    "error": {
                        "message": "EngineCore encountered an issue",
                        "type": "InternalServerError",
                        "code": 500,
                    }
                },
                "[DONE]",
            ],
            [b": bye\n\n"],
        ],
        ids=[
            "cut",
            "reset",
            "rubbish",
            "done-without-finish",
            "end-without-finish",
            "error-chunk",
            "comment",
        ],
    )
    async def test_a_stream_cut_short_ends_in_one_error_frame_and_is_not_stored(self, ending):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([delta("a"), delta("b"), *ending])
            status, chunks, _ = await read_stream(gateway)
            assert status == 200
            assert error_of(chunks)
            assert "[DONE]" not in chunks
            status, chunks, headers = await read_stream(gateway)
            assert headers["x-cache"] == "MISS"
            assert chunks[-1] == "[DONE]"
            assert set(gateway.plane.pools.in_flight().values()) == {0}

    async def test_silence_between_chunks_ends_in_an_error_frame(self):
        upstream_settings = {"idle_timeout_s": 0.2}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, upstream=upstream_settings) as gateway,
        ):
            upstream.stream([delta("a"), delta("b"), HANG])
            _, chunks, _ = await read_stream(gateway)
            assert error_of(chunks)["code"] == "upstream_timeout"
            await upstream.calls[0].wait_closed()
            assert set(gateway.plane.pools.in_flight().values()) == {0}

    async def test_an_empty_stream_is_tried_on_another_member_and_never_stored(self):
        async with (
            ScriptedUpstream() as one,
            ScriptedUpstream() as other,
            running_gateway(one, other) as gateway,
        ):
            for upstream in (one, other):
                upstream.stream(["[DONE]"])
            _, chunks, _ = await read_stream(gateway)
            assert chunks[-1] != "[DONE]"
            assert len(one.calls) == len(other.calls) == 1
            assert (await read_stream(gateway))[2]["x-cache"] == "MISS"

    async def test_comments_of_the_upstream_are_never_data(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            waits = [b": still working\n\n"] * 3
            upstream.stream([*waits, delta("a"), *waits, delta("b"), delta(finish="stop"), "[DONE]"])
            async with gateway.chat_stream() as reply:
                body = (await reply.aread()).decode()
            assert "working" not in body
            assert streamed_text(body) == "ab"


class TestFailover:
    async def test_a_failure_before_the_first_byte_is_retried_once_on_another_member(self):
        async with (
            ScriptedUpstream() as one,
            ScriptedUpstream() as other,
            running_gateway(one, other) as gateway,
        ):
            for upstream in (one, other):
                upstream.handler = None
            one.reply_json({"error": "x"}, status=500, times=100)
            for number in range(10):
                reply = await gateway.chat(f"question {number}")
                assert reply.status_code == 200
            assert len(one.calls) <= 10

    async def test_all_members_down_is_one_clear_error_that_is_not_retried(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            await upstream.stop()
            reply = await gateway.chat()
        assert reply.status_code == 502
        assert reply.headers["x-should-retry"] == "false"
        assert "127.0.0.1" not in reply.text

    async def test_a_request_has_one_deadline(self):
        upstream_settings = {"request_timeout_s": 0.3}
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, upstream=upstream_settings) as gateway,
        ):
            upstream.hang()
            reply = await gateway.chat()
            assert (reply.status_code, reply.json()["error"]["code"]) == (504, "upstream_timeout")
            await upstream.calls[0].wait_closed()

    async def test_the_sdks_own_timeout_is_the_deadline(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.hang()
            reply = await gateway.chat(headers={"x-stainless-read-timeout": "0.3"})
            assert reply.status_code == 504


class TestSharedCalls:
    async def hundred(self, gateway: RunningGateway, *, leave_first: bool = False) -> list[str]:
        async def ask(number: int) -> str:
            if number % 2:
                _, chunks, _ = await read_stream(gateway, "the same")
                assert chunks[-1] == "[DONE]"
                return "".join(
                    c["choices"][0]["delta"].get("content") or "" for c in chunks[:-1] if c["choices"]
                )
            return answer_of(await gateway.chat("the same"))

        asking = [asyncio.create_task(ask(number)) for number in range(100)]
        if leave_first:
            await asyncio.sleep(0.1)
            asking.pop(0).cancel()
        return await asyncio.gather(*asking)

    @pytest.mark.parametrize("leave_first", [False, True], ids=["all-stay", "first-leaves"])
    async def test_a_hundred_equal_misses_make_one_call_half_of_them_streaming(self, leave_first):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.first_byte_delay_s = 0.4
            answers = await self.hundred(gateway, leave_first=leave_first)
            assert len(set(answers)) == 1
            assert len(upstream.calls) == 1
            assert gateway.plane.pools.in_flight() == {"m1-1": 0, "m2-1": 0}

    async def test_a_hundred_equal_misses_survive_a_first_attempt_that_fails(self):
        async with (
            ScriptedUpstream() as one,
            ScriptedUpstream() as other,
            running_gateway(one, other) as gateway,
        ):
            failed = False

            async def fail_once(call, wire):
                nonlocal failed
                await asyncio.sleep(0.3)
                if failed:
                    await one.answer_chat(call, wire)
                else:
                    failed = True
                    await wire.json({"error": "no"}, status=500)

            one.handler = other.handler = fail_once
            assert len(set(await self.hundred(gateway))) == 1
            assert len(one.calls) + len(other.calls) == 2

    async def test_followers_are_marked_shared_and_settle_nothing(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.first_byte_delay_s = 0.2
            replies = await asyncio.gather(*[gateway.chat() for _ in range(5)])
        reasons = sorted(reply.headers["x-cache-reason"] for reply in replies)
        assert reasons == ["no-embedder", *["shared"] * 4]
        assert {reply.headers["x-cache"] for reply in replies} == {"MISS"}

    async def test_no_cache_neither_starts_nor_joins_a_shared_call(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.first_byte_delay_s = 0.2
            headers = {"cache-control": "no-cache"}
            await asyncio.gather(*[gateway.chat(headers=headers) for _ in range(3)])
            assert len(upstream.calls) == 3

    async def test_two_different_questions_are_never_shared(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.first_byte_delay_s = 0.1
            words = [f"nonce-{number}" for number in range(40)]
            replies = await asyncio.gather(*[gateway.chat(word) for word in words])
            for word, reply in zip(words, replies, strict=True):
                assert word in answer_of(reply).split()
