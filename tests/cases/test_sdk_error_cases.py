"""What clients stumbled over with other gateways when something was wrong: odd characters, errors, paths."""

from __future__ import annotations

import json

import pytest
from openai import AsyncAzureOpenAI

from tests.cases.speaking import chat_body, post_head, spoken, streamed
from tests.running import answer_of, running_gateway
from tests.scripted import ScriptedUpstream, completion, delta

INSTEAD: list[tuple[int, bytes, str, int]] = [
    (
        422,
        b'{"error":{"message":"bad top_k","type":"x","param":null,"code":7}}',
        "application/json",
        422,
    ),
    (422, b'{"detail":[{"loc":["body","top_k"],"msg":"bad top_k"}]}', "application/json", 422),
    (400, b'{"object":"error","message":"bad top_k","code":400}', "application/json", 400),
    (400, b"bad", "text/plain", 400),
    (413, b'{"error":"too large"}', "application/json", 413),
    (429, b'{"error":{"message":"slow down"}}', "application/json", 429),
    (500, b"", "application/json", 500),
    (503, b'{"error":{"message":"overloaded"}}', "application/json", 503),
    (200, b"<html></html>", "text/html", 502),
    (200, b"null", "application/json", 502),
    (200, b"", "application/json", 502),
    (200, b'{"error":{"message":"in disguise"}}', "application/json", 502),
    (204, b"", "application/json", 502),
]


PATH = b"/v1/chat/completions"
SPELLINGS = [
    "/openai/deployments/m1/chat/completions?api-version=2024-06-01",
    "/chat/completions",
    "/v1/v1/chat/completions",
    "//v1/chat/completions",
    "/v1//chat/completions",
    "/openai/v1/chat/completions",
    "/deployments/m1/chat/completions/",
    "/v1/chat/completions/",
    "/v1/chat/completions?api-version=2024-06-01",
]


class TestOddCharacters:
    """Half a surrogate pair, once let in, fails later wherever text is encoded: embedder, store, log, trace."""

    async def test_half_a_surrogate_pair_is_a_400_wherever_it_stands(self) -> None:
        bodies = [
            '"messages":[{"role":"user","content":"%s"}]',
            '"messages":[],"%s":1',
            '"messages":[],"user":"%s"',
        ]
        bodies += ['"messages":[],"tools":[{"a":{"b":"%s"}}]', '"messages":[],"tools":[{"a":{"%s":1}}]']
        async with ScriptedUpstream() as one, ScriptedUpstream() as two, running_gateway(one, two) as gateway:
            for escape in (r"hi \ud83d there", r"\udc00", r"\ude00\ud83d", r"\uD83Dx\uDE00"):
                for body in bodies:
                    reply = await gateway.post(('{"model":"m1",' + body % escape + "}").encode())
                    assert (reply.status_code, "surrogate" in reply.json()["error"]["message"]) == (400, True)
            assert one.calls == two.calls == []

    async def test_odd_but_whole_characters_go_there_and_back(self) -> None:
        texts = [
            "a\0b",
            "\uffff",
            "e" + "\u0301" * 50_000,
            "\U0001f600",
            "\u202e!",
            "\x7f\x1b[0m",
            r"a \ud83d text",
        ]
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for text in texts:
                upstream.reply_json(completion(text))
                replies = [await gateway.chat(text) for _ in range(2)]
                assert [reply.headers["x-cache"] for reply in replies] == ["MISS", "HIT-EXACT"]
                assert [answer_of(reply) for reply in replies] == [text] * 2
                assert upstream.calls[-1].json["messages"][0]["content"] == text

    async def test_a_server_that_splits_a_character_over_two_deltas_breaks_nothing(self) -> None:
        halves = [
            rb'{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}',
            rb'{"choices":[{"index":0,"delta":{"content":"\ude00"}}]}',
        ]
        parts = [b"data: " + half + b"\n\n" for half in halves]
        async with ScriptedUpstream() as one, ScriptedUpstream() as two, running_gateway(one, two) as gateway:
            for upstream in (one, two):
                upstream.stream([delta("a"), *parts, delta(finish="stop"), "[DONE]"])
            _, chunks = await streamed(gateway)
            assert chunks[-1] == "[DONE]"
            await gateway.idle()
            assert len(one.calls) + len(two.calls) == 1
            reply, chunks = await streamed(gateway)
            assert (reply.status_code, chunks[-1]) == (200, "[DONE]")

    async def test_half_a_pair_in_a_whole_answer_breaks_nothing(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for _ in range(2):
                upstream.reply_json(completion("hi \ud83d there"))
                reply = await gateway.chat()
                assert reply.status_code == 200
                reply.content.decode()
            assert (await streamed(gateway))[1][-1] == "[DONE]"


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_what_the_server_answers_instead_is_one_error_and_never_stored(self, stream: bool) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for number, (status, body, kind, expected) in enumerate(INSTEAD):
                upstream.reply(body, status=status, content_type=kind)
                reply = await gateway.chat(f"question {number}", stream=stream)
                assert (body, reply.status_code) == (body, expected)
                assert reply.headers["content-type"] == "application/json"
                assert set(reply.json()["error"]) == {"message", "type", "param", "code"}
                if b"bad top_k" in body:
                    assert "bad top_k" in reply.json()["error"]["message"]
                assert (await gateway.chat(f"question {number}")).headers["x-cache"] == "MISS"

    async def test_the_errors_of_every_layer_have_one_shape_and_tell_nothing_of_the_inside(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            limited = await gateway.new_key(rate_per_s=1, burst=1)
            await gateway.chat(key=limited)
            upstream.reply_json({"error": {"message": "no", "code": 400}}, status=400)
            upstream.cut(times=3)  # one on a connection that was kept is tried again on a new one
            replies = {
                "auth": (await gateway.chat(key="nonsense"), 401),
                "limits": (await gateway.chat(key=limited), 429),
                "validation": (await gateway.post(b"{"), 400),
                "router": (await gateway.chat(model="nope"), 404),
                "refused": (await gateway.chat("a"), 400),
                "broken": (await gateway.chat("b"), 502),
                "path": (await gateway.client.get("/v1/nothing"), 404),
            }
            monkeypatch.setattr(gateway.plane.cache, "begin", None)  # a fault of ours
            replies["fault"] = (await gateway.chat("c"), 500)
            await upstream.stop()
            host = upstream.base_url.removeprefix("http://")
        for layer, (reply, status) in replies.items():
            assert (layer, reply.status_code) == (layer, status)
            error = reply.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert isinstance(error["message"], str)
            assert isinstance(error["code"], str)
            for inside in (
                "Error",
                "Exception",
                "Traceback",
                ".py",
                "object at 0x",
                "<class",
                host,
                "127.0.0.1",
            ):
                assert inside not in error["message"]


class TestPaths:
    async def test_other_spellings_of_the_path_are_served_alike_and_never_redirected(self) -> None:
        body = chat_body("q", x_seen=1)
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            first = await gateway.post(body)
            for path in SPELLINGS:
                request = post_head(gateway, connection="close", content_length=str(len(body))) + body
                status, headers, sent = await spoken(gateway, request.replace(PATH, path.encode(), 1))
                assert (path, status, headers["x-cache"]) == (path, 200, "HIT-EXACT")
                assert json.loads(sent)["choices"] == first.json()["choices"]

    async def test_the_model_in_the_path_is_asked_whatever_the_body_says(self) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            for model in ("m2", "gpt-4o", None):
                fields = {"model": model} if model else {}
                body = {"messages": [{"role": "user", "content": "q"}], **fields}
                reply = await gateway.client.post(
                    "/openai/deployments/m2/chat/completions?api-version=2024-10-21",
                    json=body,
                    headers={"api-key": gateway.key},
                )
                assert (reply.status_code, reply.json()["model"]) == (200, "m2")
            refused = await gateway.client.post(
                "/openai/deployments/nope/chat/completions", json=body, headers={"api-key": gateway.key}
            )
            assert refused.json()["error"]["code"] == "model_not_found"
        assert [call.json["model"] for call in upstream.calls] == ["m"]

    async def test_azures_own_client_is_served(self) -> None:
        async with (
            ScriptedUpstream() as upstream,
            running_gateway(upstream) as gateway,
            AsyncAzureOpenAI(
                azure_endpoint=gateway.base_url, api_key=gateway.key, api_version="2024-10-21", max_retries=0
            ) as client,
        ):
            for model in ("m1", "m2"):
                reply = await client.chat.completions.create(
                    model=model, messages=[{"role": "user", "content": "q"}]
                )
                assert reply.model == model

    @pytest.mark.parametrize(
        "path", ["/v1/chat/completions/extra", "/V1/chat/completions", "/api/chat/completions"]
    )
    async def test_what_is_no_spelling_of_it_is_told_the_right_one(self, path: str) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            reply = await gateway.client.post(path, content=chat_body())
        assert (reply.status_code, reply.headers["content-type"]) == (404, "application/json")
        assert PATH.decode() in reply.json()["error"]["message"]
