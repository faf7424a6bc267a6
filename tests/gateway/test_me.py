"""`GET /v1/me`: a key learns what it may do, how its limits stand and what it used; and nothing of anybody else."""

from __future__ import annotations

import time
from typing import Any

import httpx

from auth import Budget, KeyRef, Limits, Policy, Priority, rotate
from gateway.usage.store import Level, UsageStore
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream

PRICES = {"m1": {"input": 1_000_000.0, "output": 2_000_000.0}}  # a token each is easy to add up


async def me(gateway: RunningGateway, key: str, **headers: str) -> httpx.Response:
    return await gateway.client.get("/v1/me", headers={"authorization": f"Bearer {key}"} | headers)


async def used(gateway: RunningGateway, key: str, requests: int) -> dict[str, Any]:
    """Today's usage, once so many requests are in it."""
    found: dict[str, Any] = {}
    deadline = time.monotonic() + 20
    while found.get("requests") != requests:
        assert time.monotonic() < deadline, found
        found = (await me(gateway, key)).json()["usage"]["today"]
    return found


async def test_a_key_learns_what_it_may_do() -> None:
    policy = Policy(
        models=("m1",), scopes=frozenset({"chat"}), cache_scope="service", priority=Priority.BATCH
    )
    async with running_gateway("http://127.0.0.1:9") as gateway:
        key = await gateway.new_key(policy=policy)
        told = (await me(gateway, key)).json()
    assert (told["id"], told["tenant"], told["service"]) == (key.split("-")[1], "acme", "web")
    assert (told["models"], told["scopes"], told["priority"]) == (["m1"], ["chat"], "batch")
    assert told["cache"] == {"mode": "semantic", "scope": "service", "shared_pool": False}
    assert told["warnings"] == []
    assert key.split("-", 2)[2] not in str(told)


async def test_limits_of_all_levels_are_shown_as_they_stand() -> None:
    limits = Limits(requests_per_min=5, budget=Budget(1000, "tokens", "month"))
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(limits=limits)
        await gateway.chat(key=key)
        await gateway.idle()
        shown = {limit["kind"]: limit for limit in (await me(gateway, key)).json()["limits"]}
    assert (shown["requests/min"]["level"], shown["requests/min"]["capacity"]) == ("key", 5)
    assert 4 <= shown["requests/min"]["remaining"] < 5
    assert shown["budget"]["remaining"] < 1000


async def test_asking_costs_nothing_of_the_limit() -> None:
    async with running_gateway("http://127.0.0.1:9") as gateway:
        key = await gateway.new_key(limits=Limits(requests_per_min=2))
        replies = [await me(gateway, key) for _ in range(5)]
    assert {reply.status_code for reply in replies} == {200}
    assert replies[-1].json()["limits"][0]["remaining"] == 2


async def test_usage_counts_hits_misses_and_refusals_apart_and_costs_by_the_price_table() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, prices=PRICES) as gateway:
        key = await gateway.new_key(limits=Limits(requests_per_min=3))
        for _ in range(2):
            await gateway.chat("the same", key=key)
            await gateway.idle()
        upstream.reply_json({"error": {"message": "no"}}, status=400)
        assert (await gateway.chat("another", key=key)).status_code == 400
        assert (await gateway.chat("more", key=key)).status_code == 429
        today = await used(gateway, key, 4)
    miss = {"input_tokens": 7, "output_tokens": 5, "cost": 7.0 + 2 * 5}  # as the scripted server counts
    hit = {"hits_exact": 1, "saved_input_tokens": 7, "saved_output_tokens": 5}
    assert today == {
        "requests": 4, "hits_semantic": 0, "shared": 0, "limited": 1, "failed": 1, **miss, **hit,
    }  # fmt: skip


async def test_usage_of_a_service_and_its_tenant_is_that_of_their_keys() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        one, other = await gateway.new_key(service="web"), await gateway.new_key(service="app")
        for key in (one, other, other):
            await gateway.chat(f"{key}", key=key)
        await used(gateway, one, 1)
        await used(gateway, other, 2)
        store = UsageStore(gateway.directory._store)  # the test's own connection
        now = int(time.time())
        levels: list[tuple[Level, str, int]] = [
            ("tenant", "acme", 3),
            ("service", "app", 2),
            ("service", "web", 1),
        ]
        for level, name, requests in levels:
            days = await store.read(
                "acme",
                level,
                name,
                "day",
                start_s=now - 86_400,
                end_s=now + 86_400,
            )
            assert sum(counts.requests for _, counts in days) == requests


async def test_a_key_about_to_end_is_warned() -> None:
    async with running_gateway("http://127.0.0.1:9") as gateway:
        key = await gateway.new_key()
        key_id = key.split("-")[1]
        written, rotated = await rotate(gateway.directory, key_id, at_s=time.time(), grace_s=3600)
        (warning,) = (await me(gateway, key)).json()["warnings"]
        assert warning["kind"] == "secret-was-rotated"
        assert written.record.old_secret is not None
        assert (await me(gateway, rotated)).json()["warnings"] == []
        assert (await gateway.directory.get(KeyRef(key_id))) is not None


async def test_nobody_without_a_key_is_told_anything() -> None:
    async with running_gateway("http://127.0.0.1:9") as gateway:
        for headers in ({}, {"authorization": "Bearer eg-nobody"}, {"x-api-key": gateway.key + "x"}):
            reply = await gateway.client.get("/v1/me", headers=headers)
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
        assert (await gateway.client.post("/v1/me")).status_code == 405


async def test_without_the_store_it_is_a_503_that_says_when_to_come_back() -> None:
    async with running_gateway("http://127.0.0.1:9") as gateway:
        await me(gateway, gateway.key)
        await gateway.valkey.kill()
        reply = await me(gateway, gateway.key)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "limits_unavailable")
    assert reply.headers["retry-after"] == "1"
