"""What a request pays: reserved when it comes, settled by what it used when it goes, given back when it failed."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from auth import Budget, Limits, Policy
from tests.running import running_gateway
from tests.scripted import CUT, HANG, ScriptedUpstream, delta
from tests.valkey import eventually

# The scripted backend counts 7 input tokens and one output token a word.
ANSWER_TOKENS = 7 + 5


async def test_the_token_trio_is_there_only_where_tokens_are_limited():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        with_tokens = await gateway.chat(key=await gateway.new_key(limits=Limits(tokens_per_min=10_000)))
        without = await gateway.chat(key=await gateway.new_key(limits=Limits(requests_per_min=10)))
    assert with_tokens.headers["x-ratelimit-limit-tokens"] == "10000"
    assert "x-ratelimit-limit-requests" not in with_tokens.headers
    assert without.headers["x-ratelimit-limit-requests"] == "10"
    assert "x-ratelimit-limit-tokens" not in without.headers


@pytest.mark.parametrize("stream", [False, True])
async def test_a_miss_pays_what_it_used_and_a_hit_nothing(stream):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        limits = Limits(tokens_per_min=6000)

        async def ask(key: str) -> httpx.Response:
            if not stream:
                return await gateway.chat("q", key=key, max_tokens=100)
            body = {"headers": {"authorization": f"Bearer {key}"}, "max_tokens": 100}
            async with gateway.chat_stream("q", **body) as reply:
                await reply.aread()
                return reply

        key = await gateway.new_key(limits=limits)
        await ask(key)
        await gateway.idle()
        hit = await ask(key)
        await gateway.idle()
        assert hit.headers["x-cache"] == "HIT-EXACT"
        probe = await gateway.chat("q", key=key, max_tokens=100)
        reserved = 100 + -(-len(probe.request.content) // 3)
        remaining = int(probe.headers["x-ratelimit-remaining-tokens"])
        # A hundred tokens a second come back meanwhile: this is a floor, and reservations kept would be far under it.
        assert 6000 - ANSWER_TOKENS - reserved <= remaining <= 6000 - reserved


async def test_a_failed_request_gets_its_tokens_back():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=Limits(tokens_per_min=1000))
        for _ in range(5):
            upstream.reply_json({"error": "no"}, status=500)
            assert (await gateway.chat(key=key, max_tokens=900)).status_code == 500
            await gateway.idle()


async def test_a_spent_budget_is_insufficient_quota():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=Limits(budget=Budget(60, "tokens", "day")))
        statuses = []
        for number in range(8):
            statuses.append((await gateway.chat(f"q{number}", key=key, max_tokens=5)).status_code)
            await gateway.idle()
        refused = await gateway.chat("more", key=key, max_tokens=5)
    assert statuses[0] == 200
    assert refused.json()["error"]["type"] == "insufficient_quota"
    assert refused.headers["x-should-retry"] == "false"
    assert "retry-after" not in refused.headers


async def test_concurrent_requests_are_bounded_and_every_exit_frees_its_place():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=Limits(concurrent=1))
        headers = {"authorization": f"Bearer {key}"}
        upstream.stream([delta("a"), HANG])
        async with gateway.chat_stream("first", headers=headers) as reply:
            await anext(reply.aiter_lines())
            refused = await gateway.chat("second", key=key)
            assert (refused.status_code, "concurrent" in refused.json()["error"]["message"]) == (429, True)
        await gateway.idle()
        upstream.stream([delta("a"), CUT])
        async with gateway.chat_stream("cut", headers=headers) as reply:
            await reply.aread()
        await gateway.idle()
        assert (await gateway.chat("third", key=key)).status_code == 200
        await gateway.idle()
        assert (await gateway.chat("third", key=key)).headers["x-cache"] == "HIT-EXACT"


async def test_the_tightest_level_refuses_and_is_named():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=Limits(requests_per_min=2))
        replies = [await gateway.chat(f"q{n}", key=key) for n in range(3)]
    assert [reply.status_code for reply in replies] == [200, 200, 429]
    assert "key requests per minute" in replies[2].json()["error"]["message"]


class TestRights:
    async def test_a_model_off_the_list_does_not_exist_for_this_key(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(policy=Policy(models=("m1*",)))
            headers = {"authorization": f"Bearer {key}"}
            assert (await gateway.chat(key=key)).status_code == 200
            hidden = await gateway.chat(key=key, model="m2")
            absent = await gateway.chat(key=key, model="m3")
            assert hidden.status_code == absent.status_code == 404
            assert hidden.text.replace("m2", "") == absent.text.replace("m3", "")
            listed = (await gateway.client.get("/v1/models", headers=headers)).json()["data"]
            assert [model["id"] for model in listed] == ["m1"]

    async def test_a_key_without_the_scope_is_a_403(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            key = await gateway.new_key(policy=Policy(scopes=frozenset({"models"})))
            reply = await gateway.chat(key=key)
            assert (reply.status_code, reply.json()["error"]["code"]) == (403, "permission_denied")

    async def test_a_keys_cache_mode_and_scope_are_its_own(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            off = await gateway.new_key(policy=Policy(cache_mode="off"))
            alone = await gateway.new_key(service="app", policy=Policy(cache_scope="service"))
            await gateway.chat()
            await gateway.idle()
            assert (await gateway.chat(key=off)).headers["x-cache"] == "BYPASS"
            assert (await gateway.chat(key=alone)).headers["x-cache"] == "MISS"

    async def test_only_tenants_in_the_shared_pool_share(self):
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            shared = Policy(shared_pool=True)
            one, other = (
                await gateway.new_key("one", policy=shared),
                await gateway.new_key("other", policy=shared),
            )
            outside = await gateway.new_key("outside")
            await gateway.chat(key=one)
            await gateway.idle()
            assert (await gateway.chat(key=other)).headers["x-cache"] == "HIT-EXACT"
            assert (await gateway.chat(key=outside)).headers["x-cache"] == "MISS"


async def test_limits_hold_under_a_burst_and_all_of_them_is_used():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=Limits(requests_per_min=30))
        replies = await asyncio.gather(*[gateway.chat("the same", key=key) for _ in range(100)])
        assert sorted(reply.status_code for reply in replies) == [200] * 30 + [429] * 70
        await eventually(lambda: gateway.plane.in_flight == 0)
