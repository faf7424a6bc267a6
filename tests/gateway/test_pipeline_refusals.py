"""What is refused, by the gateway or by the backend: its status, its words, and that it is never stored."""

from __future__ import annotations

import pytest

from tests.running import answer_of, running_gateway
from tests.scripted import ScriptedUpstream, completion


@pytest.mark.parametrize("finish", ["length", "content_filter", "abort", None])
async def test_an_answer_that_is_not_whole_is_served_but_not_stored(finish):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(completion("half a sentence", finish=finish))
        assert answer_of(await gateway.chat()) == "half a sentence"
        assert (await gateway.chat()).headers["x-cache"] == "MISS"
        assert len(upstream.calls) == 2


@pytest.mark.parametrize("choices", [[], [{"index": 0, "message": {"role": "assistant", "content": ""}}]])
async def test_an_empty_answer_is_no_fault_and_not_stored(choices):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(completion("x") | {"choices": choices}, times=2)
        replies = [await gateway.chat(), await gateway.chat()]
        assert [(r.status_code, r.headers["x-cache"]) for r in replies] == [(200, "MISS")] * 2


@pytest.mark.parametrize(
    ("status", "body", "content_type", "expected"),
    [
        (422, b'{"error":{"message":"bad top_k","type":"x","code":7}}', "application/json", 422),
        (400, b"no good", "text/plain", 400),
        (404, b'{"detail":"Not Found"}', "application/json", 404),
        (401, b'{"error":"Unauthorized"}', "application/json", 502),
        (500, b"", "application/json", 500),
        (200, b"<html>hello</html>", "text/html", 502),
        (200, b"null", "application/json", 502),
        (302, b"", "text/plain", 502),
    ],
)
async def test_a_reply_that_is_no_answer_becomes_an_error_in_openais_shape_and_is_not_stored(
    status, body, content_type, expected
):
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(body, status=status, content_type=content_type)
        reply = await gateway.chat()
        error = reply.json()["error"]
        assert reply.status_code == expected
        assert {"message", "type", "param", "code"} == set(error)
        assert isinstance(error["code"], str)
        assert (await gateway.chat()).headers["x-cache"] == "MISS"


async def test_the_upstreams_message_is_passed_on_without_hosts_and_credentials():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        message = "max_tokens too large at http://10.0.0.7:8000/v1 with key sk-abcdef123456"
        upstream.reply_json(
            {"error": {"message": message, "type": "BadRequestError", "code": 400}}, status=400
        )
        error = (await gateway.chat()).json()["error"]
    assert "max_tokens too large" in error["message"]
    assert "10.0.0.7" not in error["message"]
    assert "sk-abc" not in error["message"]


async def test_wrong_missing_and_differing_keys_are_a_401():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        wrong = await gateway.chat(key="eg-aaaaaaaaaaaa-" + "x" * 43)
        differing = await gateway.chat(headers={"x-api-key": "eg-aaaaaaaaaaaa-" + "x" * 43})
        missing = await gateway.client.post("/v1/chat/completions", content=b"{}")
        for reply in (wrong, differing, missing):
            assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
            assert "x-trace-id" in reply.headers
        assert upstream.calls == []


async def test_over_the_limit_is_a_429_with_the_wait_in_both_units():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(rate_per_s=2, burst=2)
        replies = [await gateway.chat(key=key) for _ in range(4)]
    assert [r.status_code for r in replies] == [200, 200, 429, 429]
    refused = replies[-1]
    assert refused.json()["error"]["code"] == "rate_limit_exceeded"
    assert 0 < int(refused.headers["retry-after-ms"]) <= 500
    assert refused.headers["retry-after"] == "1"
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert "x-should-retry" not in refused.headers


async def test_a_refused_request_counts_against_the_limit_too():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(rate_per_s=1, burst=2)
        statuses = [(await gateway.post(b"{", key=key)).status_code for _ in range(3)]
    assert statuses == [400, 400, 429]


async def test_a_body_over_the_limit_is_a_413_announced_or_not():
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, server={"body_limit_mib": 1}) as gateway,
    ):

        async def pieces():
            for _ in range(40):
                yield b" " * 65536

        big = await gateway.chat("x" * (1 << 20))
        chunked = await gateway.client.post(
            "/v1/chat/completions", content=pieces(), headers={"authorization": f"Bearer {gateway.key}"}
        )
        for reply in (big, chunked):
            assert (reply.status_code, reply.json()["error"]["code"]) == (413, "request_too_large")
        assert upstream.calls == []


async def test_unknown_model_path_and_method_say_what_is_wrong():
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        model = await gateway.chat(model="nope")
        path = await gateway.client.post("/api/chat/completions", content=b"{}")
        method = await gateway.client.get("/v1/chat/completions")
        options = await gateway.client.options("/v1/chat/completions")
    assert (model.status_code, model.json()["error"]["code"]) == (404, "model_not_found")
    assert (path.status_code, "/v1/chat/completions" in path.json()["error"]["message"]) == (404, True)
    assert (method.status_code, method.headers["allow"]) == (405, "POST, OPTIONS")
    assert options.status_code == 204
