"""The semantic tier through the whole data plane, on the real embedding model."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, answer_of, running_gateway, streamed_text
from tests.scripted import ScriptedUpstream
from tests.valkey import running_valkey

SEMANTIC = {"embedder": {"kind": "onnx", "model": str(prepared_model())}}
ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"


async def ask(gateway: RunningGateway, content: str, **more) -> httpx.Response:
    """A chat whose answer is stored when this returns."""
    reply = await gateway.chat(content, **more)
    await gateway.idle()
    return reply


async def test_a_paraphrase_is_a_semantic_hit_with_its_similarity_json_and_streamed():
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        first = await ask(gateway, ASKED)
        second = await ask(gateway, SAME)
        async with gateway.chat_stream(SAME) as reply:
            streamed = streamed_text((await reply.aread()).decode())
    assert first.headers["x-cache"] == "MISS"
    assert second.headers["x-cache"] == reply.headers["x-cache"] == "HIT-SEMANTIC"
    assert 0.95 <= float(second.headers["x-cache-similarity"]) < 1
    assert second.headers["x-cache-reason"] == "accepted"
    assert answer_of(second) == answer_of(first) == streamed
    assert len(upstream.calls) == 1


@pytest.mark.parametrize(
    ("asked", "other"),
    [
        ("Convert 40 pounds to kilos", "Convert 40 kilos to pounds"),
        ("Convert 40 pounds to kilos", "Convert 50 pounds to kilos"),
        ("Did Ana pay Bo?", "Did Bo pay Ana?"),
        ("translate nl to de", "translate de to nl"),
        ("How do I enable dark mode?", "How do I disable dark mode?"),
        ("我的订单什么时候发货?", "我的订单什么时候退款?"),
    ],
)
async def test_another_question_however_near_is_a_miss(asked, other):
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, asked)
        assert (await ask(gateway, other)).headers["x-cache"] == "MISS"
        assert len(upstream.calls) == 2


@pytest.mark.parametrize(
    "change",
    [
        {"model": "m2"},
        {"temperature": 0.5},
        {"max_tokens": 5},
        {"tools": [{"type": "function", "function": {"name": "get_rain"}}]},
        {"response_format": {"type": "json_object"}},
        {"foo": 1},
        {"headers": {"x-cache-namespace": "other"}},
        {"headers": {"x-cache-threshold": "0.999"}},
        {"headers": {"x-cache-mode": "exact"}},
    ],
)
async def test_whatever_can_change_the_answer_keeps_even_a_paraphrase_apart(change):
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        assert (await ask(gateway, SAME, **change)).headers["x-cache"] == "MISS"


async def test_another_tenants_paraphrase_is_a_miss():
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        assert (await ask(gateway, SAME, key=await gateway.new_key("umbrella"))).headers["x-cache"] == "MISS"


async def test_earlier_turns_keep_a_paraphrase_apart():
    async def talk(gateway: RunningGateway, first: str, last: str):
        turns = [("user", first), ("assistant", "Fine."), ("user", last)]
        await gateway.idle()
        return await gateway.chat(messages=[{"role": role, "content": text} for role, text in turns])

    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await talk(gateway, "We speak of France.", ASKED)
        assert (await talk(gateway, "We speak of Spain.", SAME)).headers["x-cache"] == "MISS"
        assert (await talk(gateway, "We speak of France.", SAME)).headers["x-cache"] == "HIT-SEMANTIC"


async def test_a_text_longer_than_the_model_reads_is_matched_exactly_only():
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        long = "lorem " * 3000
        await ask(gateway, "seed")
        first = await ask(gateway, long + "one")
        other = await ask(gateway, long + "two")
        again = await ask(gateway, long + "one")
    assert (first.status_code, first.headers["x-cache"]) == (200, "MISS")
    assert (other.headers["x-cache"], other.headers["x-cache-reason"]) == ("MISS", "too-long")
    assert again.headers["x-cache"] == "HIT-EXACT"


async def test_a_refreshed_answer_is_found_by_meaning_too():
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        fresh = await ask(gateway, ASKED, headers={"cache-control": "no-cache"})
        assert fresh.headers["x-cache"] == "REFRESH"
        assert answer_of(await ask(gateway, SAME)) == answer_of(fresh)


async def test_a_flush_takes_semantic_hits_away_too():
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SEMANTIC) as gateway:
        await ask(gateway, ASKED)
        await gateway.plane.cache.flush("acme/default/m1")
        assert (await ask(gateway, SAME)).headers["x-cache"] == "MISS"


async def test_semantic_hits_come_back_after_a_restart_and_reach_other_workers():
    async with running_valkey() as valkey, ScriptedUpstream() as upstream:
        async with running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as one:
            await ask(one, ASKED)
            async with running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as other:
                assert (await ask(other, SAME)).headers["x-cache"] == "HIT-SEMANTIC"
                await ask(one, "How do I reset my password?")
                only = {"cache-control": "only-if-cached"}
                async with asyncio.timeout(5):  # the change stream brings it within milliseconds
                    while (await other.chat("How can I reset my password?", headers=only)).status_code == 504:
                        pass
        await valkey.stop()
        await valkey.start()
        async with running_gateway(upstream, valkey=valkey, cache=SEMANTIC) as again:
            assert (await ask(again, SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        assert len(upstream.calls) == 2


async def test_without_a_prepared_model_the_exact_tier_works_and_readiness_says_what_to_run(tmp_path):
    missing = {"embedder": {"kind": "onnx", "model": str(tmp_path / "none")}}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=missing) as gateway:
        await ask(gateway, ASKED)
        assert (await ask(gateway, ASKED)).headers["x-cache"] == "HIT-EXACT"
        assert (await ask(gateway, SAME)).headers["x-cache-reason"] == "no-embedder"
        ready = (await gateway.client.get("/health/ready")).json()
    assert ready["status"] == "degraded"
    assert "echogate models prepare" in ready["reasons"][0]
