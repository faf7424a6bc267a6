"""Answers that other caches kept for too long, in part, or not for everybody who had asked."""

from __future__ import annotations

import asyncio
from typing import Any

from redis.asyncio import Redis

from tests.cases.speaking import streamed
from tests.running import answer_of, running_gateway
from tests.scripted import HANG, ScriptedUpstream, completion
from tests.valkey import eventually, running_valkey

QUESTION = "Is there rain in Oslo?"


async def _times_left(url: str) -> dict[bytes, int]:
    """Milliseconds until each key of the cache that holds an answer expires."""
    async with Redis.from_url(url) as redis:
        keys = [key async for key in redis.scan_iter("*")]
        left = {key: int(await redis.pttl(key)) for key in keys}
    return {key: ms for key, ms in left.items() if ms > 0}


class TestHowLong:
    async def test_hits_do_not_make_an_entry_live_longer(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream, cache={"ttl_s": 3600}) as gateway,
        ):
            await gateway.chat(QUESTION)
            await gateway.idle()
            before = await _times_left(gateway.valkey.url)
            for _ in range(5):
                assert (await gateway.chat(QUESTION)).headers["x-cache"] == "HIT-EXACT"
            after = await _times_left(gateway.valkey.url)
        entries = [key for key in before if b":e:" in key]  # counts and decisions have lives of their own
        assert entries
        assert all(0 < after[key] <= before[key] <= 3_600_000 for key in entries)

    async def test_an_answer_is_gone_when_its_time_is_over_however_often_it_was_asked_for(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            await gateway.chat(QUESTION, cache={"ttl": 1})

            async def is_gone() -> bool:
                return (
                    await gateway.chat(QUESTION, headers={"cache-control": "only-if-cached"})
                ).status_code == 504

            async with asyncio.timeout(20):
                while not await is_gone():  # noqa: ASYNC110 - asked again and again is what this is about
                    await asyncio.sleep(0.05)

    async def test_a_time_to_live_that_was_lowered_counts_for_what_is_stored_already(self) -> None:
        async with running_valkey() as valkey, ScriptedUpstream() as upstream:
            async with running_gateway(upstream, valkey=valkey, cache={"ttl_s": 3600}) as gateway:
                await gateway.chat(QUESTION)
            await asyncio.sleep(1.1)
            async with running_gateway(upstream, valkey=valkey, cache={"ttl_s": 1}) as gateway:
                assert (await gateway.chat(QUESTION)).headers["x-cache"] == "MISS"


class TestWhatIsKept:
    async def test_everything_a_message_says_comes_back_in_both_forms(self) -> None:
        message = {
            "role": "assistant",
            "content": "5 mm",
            "reasoning_content": "It is Oslo.",
            "refusal": None,
        }
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.reply_json(completion("x") | {"choices": [choice]})
            await gateway.chat(QUESTION)
            whole = await gateway.chat(QUESTION)
            reply, chunks = await streamed(gateway, QUESTION)
        deltas = [chunk["choices"][0]["delta"] for chunk in chunks[:-1]]
        assert whole.json()["choices"][0]["message"] == message
        assert "".join(each.get("reasoning_content") or "" for each in deltas) == "It is Oslo."
        assert "".join(each.get("content") or "" for each in deltas) == "5 mm"
        assert reply.headers["x-cache"] == whole.headers["x-cache"] == "HIT-EXACT"

    async def test_an_answer_without_content_is_never_kept_nor_a_fault(self) -> None:
        nothing: list[Any] = [{"choices": []}]
        nothing += [
            {
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
                ]
            }
            for text in ("", None)
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for number, body in enumerate(nothing):
                for _ in range(2):
                    upstream.reply_json(completion("x") | body)
                    reply = await gateway.chat(f"question {number}")
                    assert (reply.status_code, reply.headers["x-cache"]) == (200, "MISS")
                    upstream.reply_json(completion("x") | body)
                    reply, _chunks = await streamed(gateway, f"question {number}")
                    assert (reply.status_code < 500, reply.headers["x-cache"]) == (True, "MISS")

    async def test_whoever_leads_a_shared_call_may_run_out_of_time_and_the_others_do_not(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.stream([0.0, HANG])  # the call of the first
            hurried = asyncio.create_task(gateway.chat(QUESTION, headers={"x-stainless-read-timeout": "0.5"}))
            await upstream.wait_calls(1)
            others = [asyncio.create_task(gateway.chat(QUESTION)) for _ in range(5)]
            await eventually(lambda: gateway.plane.in_flight == 6)
            assert (await hurried).status_code == 504
            replies = await asyncio.gather(*others)
            assert {reply.status_code for reply in replies} == {200}
            assert len({answer_of(reply) for reply in replies}) == 1
