"""`/v1/embeddings` when something goes wrong: callers that leave, a late store, servers that say something else."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import httpx
import pytest

from auth import Limits
from tests.gateway.test_embeddings import asked_for, embed, post, used_today, vector_of, vectors
from tests.running import running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire
from tests.valkey import eventually


@pytest.mark.parametrize("known", [[], ["a"]])
async def test_a_caller_that_leaves_frees_the_server_and_nothing_is_kept(known: list[str]) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        if known:
            await post(gateway, known)
        upstream.hang()
        with pytest.raises(httpx.ReadTimeout):
            await gateway.client.post(
                "/v1/embeddings",
                json={"model": "m1", "input": ["a", "b"]},
                headers={"authorization": f"Bearer {gateway.key}"},
                timeout=0.5,
            )
        await eventually(lambda: upstream.active == 0 and gateway.plane.in_flight == 0)
        assert sum(gateway.plane.pools.in_flight().values()) == 0
        assert (await post(gateway, "b")).headers["x-cache"] == "MISS"


async def test_a_store_that_goes_away_before_the_write_costs_nobody_an_answer() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:

        async def embed_and_stop_the_store(call: Call, wire: Wire) -> None:
            gateway.valkey.hang()
            await embed(call, wire)

        upstream.script(embed_and_stop_the_store)
        upstream.handler = embed
        try:
            reply = await gateway.client.post(
                "/v1/embeddings",
                json={"model": "m1", "input": ["a"]},
                headers={"authorization": f"Bearer {gateway.key}"},
            )
            assert (reply.status_code, vectors(reply)) == (200, [vector_of("a")])
            await gateway.idle()
        finally:
            gateway.valkey.resume()


async def test_over_the_limit_nobody_is_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        key = await gateway.new_key(service="few", limits=Limits(requests_per_s=10, burst=1))
        replies = await asyncio.gather(*(post(gateway, f"text {number}", key=key) for number in range(4)))
        refused = [reply for reply in replies if reply.status_code == 429]
        assert refused
        assert all(reply.json()["error"]["code"] == "rate_limit_exceeded" for reply in refused)
        assert len(upstream.calls) == 4 - len(refused)


async def test_a_stored_batch_costs_no_tokens_and_a_mixed_one_those_of_what_was_asked() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        await post(gateway, ["a", "b"])
        key = await gateway.new_key(service="pays")
        await post(gateway, ["a", "b"], key=key)
        await post(gateway, ["c", "c", "a"], key=key)
        async with asyncio.timeout(10):  # usage is written behind the path
            while (used := await used_today(gateway, key)) == 0:  # noqa: ASYNC110 - the store has no event for it
                await asyncio.sleep(0.05)
        assert used == 10


async def test_embeddings_do_not_make_answers_look_short() -> None:
    """What a key's answers usually take is reserved for its next one; vectors are no answers."""
    async with ScriptedUpstream(words=400) as upstream, running_gateway(upstream) as gateway:
        key = await gateway.new_key(service="both", limits=Limits(tokens_per_min=100_000))
        await gateway.chat("a question", key=key)
        upstream.handler = embed
        for number in range(24):
            await post(gateway, f"text {number}", key=key)
        before = await gateway.client.get("/v1/me", headers={"authorization": f"Bearer {key}"})
        upstream.handler = None
        upstream.hang()
        asking = asyncio.create_task(gateway.chat("one more", key=key))
        await upstream.wait_calls(1 + 24 + 1)
        while_asking = await gateway.client.get("/v1/me", headers={"authorization": f"Bearer {key}"})
        reserved = tokens_left(before) - tokens_left(while_asking)
        asking.cancel()
        assert reserved > 300


def tokens_left(me: httpx.Response) -> int:
    (left,) = [each["remaining"] for each in me.json()["limits"] if each["kind"] == "tokens/min"]
    return int(left)


@pytest.mark.parametrize("body", [b"<html>", b"null", b"[1]", b"data: {}\n\n"])
async def test_what_is_no_reply_is_an_error_and_a_failure_of_the_server(body: bytes) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply(body)
        reply = await gateway.client.post(
            "/v1/embeddings",
            json={"model": "m1", "input": "a"},
            headers={"authorization": f"Bearer {gateway.key}"},
        )
        assert (reply.status_code, reply.json()["error"]["code"]) == (502, "upstream_error")
        (view,) = [view for view in gateway.plane.pools.members() if view.model == "m1"]
        assert view.errors > 0.05


async def test_events_instead_of_a_reply_are_an_error_and_a_wish_for_them_is_the_servers() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed
        assert vectors(await post(gateway, "a", stream=True)) == [vector_of("a")]
        upstream.stream([{"data": []}, "[DONE]"], times=2)
        assert (await post(gateway, "b", stream=True)).status_code == 502


@pytest.mark.parametrize("fields", [{"embed_dtype": "float16"}, {"endianness": "big"}])
async def test_numbers_of_another_kind_are_kept_for_their_own_form_only(fields: dict[str, Any]) -> None:
    """Read as 32-bit floats they would be wrong in any other."""
    packed = base64.b64encode(struct.pack("<4e", 1, 2, 3, 4)).decode()

    async def embed_as_halves(call: Call, wire: Wire) -> None:
        asked = json.loads(call.body)
        vector: Any = packed if asked.get("encoding_format") == "base64" else [1.0, 2.0, 3.0, 4.0]
        await wire.json({"data": [{"index": 0, "embedding": vector}], "model": "m"})

    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.handler = embed_as_halves
        for _ in range(2):
            halves: list[Any] = vectors(await post(gateway, "a", encoding_format="base64", **fields))
            assert halves == [packed]
            assert vectors(await post(gateway, "a", **fields)) == [[1.0, 2.0, 3.0, 4.0]]
        assert asked_for(upstream) == ["a", "a"]
