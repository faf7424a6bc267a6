"""One request through every part: what is a hit, a miss, a bypass, and what each reply tells of it."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.settings.reading import Settings
from tests.running import answer_of, events, running_gateway, streamed_text
from tests.scripted import ScriptedUpstream, completion, delta


async def test_a_question_is_a_miss_and_the_same_again_an_exact_hit():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        first = await gateway.chat()
        second = await gateway.chat()
    assert (first.status_code, first.headers["x-cache"]) == (200, "MISS")
    assert (second.status_code, second.headers["x-cache"]) == (200, "HIT-EXACT")
    assert answer_of(first) == answer_of(second)
    assert len(upstream.calls) == 1
    one, other = first.json(), second.json()
    assert other["id"] != one["id"]
    assert (other["object"], other["model"], other["usage"]) == ("chat.completion", "m1", one["usage"])
    assert second.headers["x-cache-similarity"] == "1.0000"
    assert int(second.headers["age"]) >= 0
    assert "x-cache-id" in second.headers


async def test_streams_and_json_serve_each_other():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        async with gateway.chat_stream("one") as reply:
            streamed = streamed_text((await reply.aread()).decode())
        whole = await gateway.chat("one")
        first = await gateway.chat("two")
        async with gateway.chat_stream("two") as reply:
            body = (await reply.aread()).decode()
            assert reply.headers["content-type"].startswith("text/event-stream")
            assert "content-length" not in reply.headers
    assert answer_of(whole) == streamed
    assert whole.headers["x-cache"] == reply.headers["x-cache"] == "HIT-EXACT"
    assert whole.headers["content-type"] == "application/json"
    assert streamed_text(body) == answer_of(first)
    assert events(body)[-1] == "[DONE]"
    assert len(upstream.calls) == 2


@pytest.mark.parametrize("options", [None, {"include_usage": False}, {"include_usage": True}])
async def test_usage_comes_exactly_when_asked_on_miss_and_hit(options):
    more = {} if options is None else {"stream_options": options}
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for expected in ("MISS", "HIT-EXACT"):
            async with gateway.chat_stream(**more) as reply:
                chunks = events((await reply.aread()).decode())
            assert reply.headers["x-cache"] == expected
            usages = [c for c in chunks if isinstance(c, dict) and c.get("usage")]
            if options == {"include_usage": True}:
                assert [c["choices"] for c in usages] == [[]]
                assert chunks[-2:] == [usages[0], "[DONE]"]
            else:
                assert usages == []
        assert upstream.calls[0].json["stream_options"]["include_usage"] is True


async def test_every_reply_carries_its_ids_and_limits():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for reply in [
            await gateway.chat(headers={"x-request-id": "mine-1"}),
            await gateway.chat(headers={"x-request-id": "mine-1"}),
            await gateway.chat(model="nope", headers={"x-request-id": "mine-1"}),
        ]:
            assert reply.headers["x-request-id"] == "mine-1"
            assert reply.headers["x-echogate-request-id"].startswith("req_")
            assert len(reply.headers["x-trace-id"]) == 32
            assert int(reply.headers["x-ratelimit-remaining-requests"]) < int(
                reply.headers["x-ratelimit-limit-requests"]
            )
            assert reply.headers["x-ratelimit-reset-requests"].endswith("s")


async def test_the_backend_gets_the_body_byte_for_byte_but_for_the_model():
    body = (
        b'{"model": "m1","top_k" : 5, "temperature":1.50e-1,"x_new":{"b":[1.0 ,2],"a":"caf\\u00e9"},'
        b'"messages":[{"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"hi"}]}'
    )
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await gateway.post(body)
    assert reply.status_code == 200
    assert upstream.calls[0].body == (
        b'{"model":"m","top_k":5,"temperature":1.50e-1,"x_new":{"b":[1.0 ,2],"a":"caf\\u00e9"},'
        b'"messages":[{"role":"assistant","content":null,"tool_calls":[]},{"role":"user","content":"hi"}]}'
    )


async def test_the_clients_body_is_the_upstreams_byte_for_byte_on_a_miss_but_for_a_mapped_model():
    raw = json.dumps(completion("x", model="its-own-name")).replace(", ", " ,  ").encode()
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(raw)
        assert (await gateway.chat()).content == raw.replace(b"its-own-name", b"m1")


async def test_where_no_pool_maps_the_model_its_name_in_the_reply_is_the_servers_stored_or_not():
    async with ScriptedUpstream() as upstream:
        pools = {"m": [{"url": upstream.base_url, "name": "one", "model": "m", "revision": "r1"}]}
        settings = Settings(pools=pools, store={"deadline_ms": 2000}, cache={"embedder": {"kind": "none"}})
        async with running_gateway(settings=settings) as gateway:
            raw = json.dumps(completion("x", model="m-2026-01")).replace(", ", " ,  ").encode()
            upstream.reply(raw)
            fresh, again = await gateway.chat(model="m"), await gateway.chat(model="m")
    assert fresh.content == raw
    assert (again.headers["x-cache"], again.json()["model"]) == ("HIT-EXACT", "m-2026-01")


async def test_litellms_cache_object_controls_the_cache_and_never_reaches_the_backend():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        await gateway.chat()
        fresh = await gateway.chat(cache={"no-cache": True})
        again = await gateway.chat()
        neither = await gateway.chat(cache={"no-store": True})
    assert [r.headers["x-cache"] for r in (fresh, again, neither)] == ["REFRESH", "HIT-EXACT", "BYPASS"]
    assert answer_of(again) == answer_of(fresh)
    assert not any("cache" in call.json for call in upstream.calls)


@pytest.mark.parametrize(
    ("headers", "fields", "word"),
    [
        ({"cache-control": "no-cache"}, {}, "REFRESH"),
        ({"cache-control": "no-store"}, {}, "BYPASS"),
        ({"x-cache-mode": "off"}, {}, "BYPASS"),
        ({}, {"cache": {"use-cache": False}}, "BYPASS"),
        ({}, {"store": True}, "BYPASS"),
        ({"cache-control": "max-age=0"}, {}, "MISS"),
        ({"x-cache-namespace": "other"}, {}, "MISS"),
        ({}, {"model": "m2"}, "MISS"),
    ],
)
async def test_every_documented_way_around_the_cache_reaches_the_backend(headers, fields, word):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        await gateway.chat()
        await asyncio.sleep(0.01)  # older than max-age=0
        reply = await gateway.chat(headers=headers, **fields)
        assert reply.headers["x-cache"] == word
        assert len(upstream.calls) == 2


async def test_only_if_cached_is_a_504_that_is_not_retried():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await gateway.chat(headers={"cache-control": "only-if-cached"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "cache_miss")
        assert reply.headers["x-should-retry"] == "false"
        assert upstream.calls == []


@pytest.mark.parametrize(
    ("text", "headers"),
    [
        ("Tell me another joke", {}),
        ("hi", {"x-cache-mode": "off"}),
        ("hi", {"x-cache-namespace": "n", "cache-control": "no-cache, only-if-cached"}),
    ],
)
async def test_only_if_cached_never_asks_a_model_server_past_the_cache_either(text, headers):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await gateway.chat(text, headers={"cache-control": "only-if-cached"} | headers)
        assert (reply.status_code, reply.json()["error"]["code"]) == (504, "cache_miss")
        assert upstream.calls == []


async def test_no_store_counts_in_whichever_of_several_cache_control_lines_it_stands():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = ("authorization", f"Bearer {gateway.key}")
        body = {"model": "m1", "messages": [{"role": "user", "content": "hi"}]}
        lines = [key, ("cache-control", "no-store"), ("cache-control", "max-age=60")]
        reply = await gateway.client.post("/v1/chat/completions", json=body, headers=lines)
        assert (reply.headers["x-cache"], reply.headers["x-cache-reason"]) == ("BYPASS", "no-store")
        lines = [key, ("x-cache-mode", "off"), ("x-cache-mode", "semantic")]
        two = await gateway.client.post("/v1/chat/completions", json=body, headers=lines)
        assert (two.status_code, two.json()["error"]["param"]) == (400, "x-cache-mode")


async def test_who_sends_no_key_is_told_how_to_send_one():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await gateway.client.post("/v1/chat/completions", json={})
        assert "'Authorization: Bearer <key>'" in reply.json()["error"]["message"]


async def test_two_tenants_never_see_each_others_answers_nor_ids():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        other = await gateway.new_key("umbrella")
        mine = await gateway.chat("What is our internal code name for launch 12?")
        theirs = await gateway.chat("What is our internal code name for launch 12?", key=other)
        mine_again = await gateway.chat("What is our internal code name for launch 12?")
        theirs_again = await gateway.chat("What is our internal code name for launch 12?", key=other)
    assert theirs.headers["x-cache"] == "MISS"
    assert answer_of(mine) != answer_of(theirs)
    assert mine_again.headers["x-cache-id"] != theirs_again.headers["x-cache-id"]
    assert len(upstream.calls) == 2


async def test_models_are_listed_and_described():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        headers = {"authorization": f"bearer {gateway.key}"}
        listed = await gateway.client.get("/v1/models", headers=headers)
        one = await gateway.client.get("/v1/models/m1", headers=headers)
        none = await gateway.client.get("/v1/models/nope", headers=headers)
        nobody = await gateway.client.get("/v1/models")
    assert [m["id"] for m in listed.json()["data"]] == ["m1", "m2"]
    assert one.json()["object"] == "model"
    assert (none.status_code, nobody.status_code) == (404, 401)


async def test_health_needs_no_key_answers_head_and_is_never_limited():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for path in ("/health/live", "/health/ready"):
            got = await gateway.client.get(path)
            head = await gateway.client.head(path)
            assert (got.status_code, head.status_code) == (200, 200)
            assert head.content == b""
            assert got.json()["status"] == "ok"


async def test_three_choices_interleaved_keep_their_index_on_miss_and_hit():
    parts = [delta("", index=i, role="assistant") for i in range(3)]
    parts += [delta(f"t{i}", index=i) for i in (2, 0, 1)]
    parts += [delta(finish="stop", index=i) for i in (1, 2, 0)]
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([*parts, "[DONE]"])
        for word in ("MISS", "HIT-EXACT"):
            async with gateway.chat_stream(n=3) as reply:
                chunks = events((await reply.aread()).decode())
            assert reply.headers["x-cache"] == word
            texts = ["", "", ""]
            finishes = {}
            for chunk in chunks[:-1]:
                for choice in chunk["choices"]:
                    texts[choice["index"]] += choice["delta"].get("content") or ""
                    if choice["finish_reason"]:
                        finishes[choice["index"]] = choice["finish_reason"]
            assert texts == ["t0", "t1", "t2"]
            assert finishes == {0: "stop", 1: "stop", 2: "stop"}
        assert len(upstream.calls) == 1
