"""`/v1/embeddings`: each input is asked of a server once, in whichever form, and never mixed up."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import httpx
import openai
import pytest

from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.scripted.upstream import Call, Wire


def vector_of(item: Any) -> list[float]:
    seed = sum(str(item).encode()) + len(str(item))
    return [struct.unpack("<f", struct.pack("<f", (seed * each % 97) / 97 - 0.5))[0] for each in range(1, 9)]


async def embed(call: Call, wire: Wire) -> None:
    """As an embeddings server: in the form that was asked for, floats unless told otherwise; ten tokens a text."""
    asked = json.loads(call.body)
    items = asked["input"]
    items = [items] if isinstance(items, str) or isinstance(items[0], int) else items
    data = []
    for at, item in enumerate(items):
        vector: Any = vector_of(item)
        if asked.get("encoding_format") == "base64":
            vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
        data.append({"index": at, "object": "embedding", "embedding": vector})
    count = 10 * len(items)
    await wire.json(
        {
            "object": "list",
            "id": "embd-1",
            "model": asked["model"],
            "data": data,
            "usage": {"prompt_tokens": count, "total_tokens": count},
        }
    )


async def post(gateway: RunningGateway, input_: Any, **fields: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {fields.pop('key', gateway.key)}", **fields.pop("headers", {})}
    reply = await gateway.client.post(
        "/v1/embeddings", json={"model": "m1", "input": input_, **fields}, headers=headers
    )
    await gateway.idle()
    return reply


def vectors(reply: httpx.Response) -> list[list[float]]:
    data = reply.json()["data"]
    assert [each["index"] for each in data] == list(range(len(data)))
    return [each["embedding"] for each in data]


def asked_for(upstream: ScriptedUpstream) -> list[Any]:
    return [json.loads(call.body)["input"] for call in upstream.calls]


async def test_a_second_time_nobody_is_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        first = await post(gateway, ["a", "b"])
        assert first.headers["x-cache"] == "MISS"
        second = await post(gateway, ["b", "a"])
        assert second.headers["x-cache"] == "HIT-EXACT"
        assert second.headers["age"] == "0"
        assert vectors(second) == [vector_of("b"), vector_of("a")]
        assert second.json()["usage"] == {"prompt_tokens": 20, "total_tokens": 20}
        assert len(upstream.calls) == 1


async def test_only_what_is_new_is_asked_and_each_once() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, ["a"])
        reply = await post(gateway, ["b", "a", "c", "b"])
        assert (reply.headers["x-cache"], reply.headers["x-cache-reason"]) == ("MISS", "partial")
        assert asked_for(upstream) == [["a"], ["b", "c"]]
        assert vectors(reply) == [vector_of(each) for each in ("b", "a", "c", "b")]
        assert reply.json()["usage"]["prompt_tokens"] == 10 + 20
        assert reply.json()["model"] == "m1"
        assert (await post(gateway, ["c", "b"])).headers["x-cache"] == "HIT-EXACT"


async def test_a_batch_of_news_goes_and_comes_byte_for_byte() -> None:
    body = b'{"model":"m1" , "input":["a"],"x_new": 1.50}'
    answer = b'{"data": [{"embedding": [0.5, 1e-3],  "index": 0}], "model": "m", "more": 1.0}'
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(answer)
        reply = await gateway.client.post(
            "/v1/embeddings",
            content=body,
            headers={"authorization": f"Bearer {gateway.key}", "content-type": "application/json"},
        )
        assert reply.content == answer.replace(b'"m"', b'"m1"')
        assert upstream.calls[0].body == b'{"model":"m","input":["a"],"x_new":1.50}'
        assert upstream.calls[0].path == "/v1/embeddings"


@pytest.mark.parametrize("forms", [("float", "base64"), ("base64", "float"), (None, "base64")])
async def test_the_form_follows_the_request_and_not_what_is_stored(forms: tuple[str | None, str]) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        for form in forms:
            fields = {} if form is None else {"encoding_format": form}
            reply = await post(gateway, "a", **fields)
            (found,) = vectors(reply)
            if form == "base64":
                assert isinstance(found, str)
                found = list(struct.unpack("<8f", base64.b64decode(found)))
            assert found == pytest.approx(vector_of("a"), abs=1e-6)
        assert len(upstream.calls) == 1
        assert ("encoding_format" in json.loads(upstream.calls[0].body)) == (forms[0] is not None)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"input": "1,2"}, {"input": [1, 2]}),
        ({"input": "[1,2]"}, {"input": [1, 2]}),
        ({"input": "hello"}, {"input": "Hello"}),
        ({"input": "hello"}, {"input": " hello"}),
        ({"input": "hello"}, {"input": "hello?"}),
        ({"input": "a", "dimensions": 64}, {"input": "a"}),
        ({"input": "a", "x_task": "query"}, {"input": "a"}),
        ({"input": "a", "model": "m2"}, {"input": "a"}),
    ],
)
async def test_what_differs_is_never_taken_for_the_same(first: Any, second: Any) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        for asked in (first, second):
            rest = {name: value for name, value in asked.items() if name != "input"}
            reply = await post(gateway, asked["input"], **rest)
            assert reply.headers["x-cache"] == "MISS"


async def test_tokens_work_like_texts() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, [5, 6])
        reply = await post(gateway, [[5, 6], [7]])
        assert asked_for(upstream) == [[5, 6], [[7]]]
        assert vectors(reply) == [vector_of([5, 6]), vector_of([7])]


async def test_tenants_share_nothing() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, "a")
        assert (await post(gateway, "a", key=await gateway.new_key("umbrella"))).headers["x-cache"] == "MISS"


@pytest.mark.parametrize(
    ("headers", "outcomes"),
    [
        ({"cache-control": "no-cache"}, ["REFRESH", "HIT-EXACT"]),
        ({"cache-control": "no-store"}, ["BYPASS", "MISS"]),
        ({"x-cache-mode": "off"}, ["BYPASS", "MISS"]),
        ({"x-cache-mode": "exact"}, ["MISS", "HIT-EXACT"]),
        ({"x-cache-namespace": "other"}, ["MISS", "MISS"]),
    ],
)
async def test_what_a_request_can_ask_of_the_cache(headers: dict[str, str], outcomes: list[str]) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        found = [(await post(gateway, "a", headers=each)).headers["x-cache"] for each in (headers, {})]
        assert found == outcomes


async def test_only_what_is_stored_or_nothing_at_all() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, "a")
        only = {"cache-control": "only-if-cached"}
        assert (await post(gateway, "a", headers=only)).status_code == 200
        assert (await post(gateway, ["a", "b"], headers=only)).status_code == 504
        assert (await post(gateway, "a", headers=only | {"x-cache-mode": "off"})).status_code == 504
        old = {"cache-control": "max-age=0"}
        assert (await post(gateway, "a", headers=old)).headers["x-cache"] == "MISS"


@pytest.mark.parametrize(
    "reply",
    [
        b'{"data": []}',
        b'{"data": [{"index": 0, "embedding": []}]}',
        b'{"data": [{"index": 3, "embedding": [1.0]}]}',
        b'{"data": [{"index": 0, "embedding": [[1.0], [2.0]]}]}',
        b'{"data": [{"index": 0, "embedding": "!!"}]}',
        b'{"data": [{"index": 0, "embedding": [1e999]}]}',
        b'{"data": [{"index": 0, "embedding": [1e300]}]}',
        b'{"data": [{"index": 0}]}',
    ],
)
async def test_a_reply_that_is_no_vector_is_passed_on_and_not_stored(reply: bytes) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(reply, times=2)
        assert (await post(gateway, "a")).content == reply
        assert (await post(gateway, "a")).headers["x-cache"] == "MISS"


@pytest.mark.parametrize(("body", "status"), [(b"<html>", 502), (b"null", 502), (b"[]", 502)])
async def test_a_page_instead_of_vectors_is_an_error(body: bytes, status: int) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(body, times=3)
        assert (await post(gateway, "a")).status_code == status


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": 5}, "input"),
        ({"input": ""}, "input.0"),
        ({"input": ["a", 5]}, "input.1"),
        ({"input": ["a", ""]}, "input.1"),
        ({"input": [[1], []]}, "input.1"),
        ({"input": [1, True]}, "input.0"),
        ({"input": ["x"] * 2049}, "input"),
        ({"input": "a", "encoding_format": "hex"}, "encoding_format"),
        ({"input": "a", "api_base": "http://x"}, "api_base"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(fields: dict[str, Any], param: str) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        reply = await post(gateway, fields.pop("input"), **fields)
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
        assert not upstream.calls


async def test_a_key_needs_the_scope_and_pays_for_what_was_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, ["a", "b", "c"])
        key = await gateway.new_key(service="pays")
        await post(gateway, ["a", "b", "d"], key=key)
        async with asyncio.timeout(10):  # usage is written behind the path
            used = 0
            while used != 10:
                await asyncio.sleep(0.05)
                used = await used_today(gateway, key)


async def used_today(gateway: RunningGateway, key: str) -> int:
    me = await gateway.client.get("/v1/me", headers={"authorization": f"Bearer {key}"})
    return int(me.json()["usage"]["today"]["input_tokens"])


async def test_the_official_sdk_reads_both_forms_cold_and_warm() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        async with openai.AsyncOpenAI(base_url=gateway.base_url + "/v1", api_key=gateway.key) as sdk:
            for _ in range(2):
                packed = await sdk.embeddings.create(model="m1", input=["a", "b"])
                plain = await sdk.embeddings.create(model="m1", input=["a"], encoding_format="float")
                assert packed.data[0].embedding == pytest.approx(vector_of("a"), abs=1e-6)
                assert plain.data[0].embedding == pytest.approx(vector_of("a"), abs=1e-6)
                assert packed.usage.prompt_tokens == 20
        assert len(upstream.calls) == 1


async def test_a_store_that_is_away_costs_nobody_an_answer() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, "a")
        gateway.valkey.hang()
        try:
            reply = await post(gateway, "a")
        finally:
            gateway.valkey.resume()
        assert (reply.status_code, reply.headers["x-cache-reason"]) == (200, "store-down")


async def test_a_large_batch_comes_back_in_order() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        texts = [f"text {number}" for number in range(300)]
        await post(gateway, texts)
        reply = await post(gateway, texts[::-1])
        assert reply.headers["x-cache"] == "HIT-EXACT"
        assert vectors(reply) == [vector_of(text) for text in texts[::-1]]
