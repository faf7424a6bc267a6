"""Reports of embeddings that could not be decoded, and of overloaded servers that say nothing of when to come back."""

from __future__ import annotations

import asyncio
import json
import sys

import openai
import pytest

from tests.gateway.test_embeddings import embed, vector_of
from tests.gateway.test_passthrough import RERANK, post
from tests.running import running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire

_ASK = """
import json, sys
if sys.argv[3] == "bare":
    sys.modules["numpy"] = None  # as where it is not installed
import openai
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key=sys.argv[2], max_retries=0)
asked = ["a", ["a", "b"], [5, 6]]
found = [[each.embedding for each in client.embeddings.create(model="m1", input=one).data] for one in asked]
found.append([client.embeddings.create(model="m1", input="a", encoding_format="float").data[0].embedding])
print(json.dumps(found))
"""


class TestEmbeddings:
    @pytest.mark.parametrize("install", ["bare", "with numpy"])
    async def test_the_official_sdk_decodes_the_same_numbers_with_and_without_numpy(
        self, install: str
    ) -> None:
        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.handler = embed
            for _ in range(2):  # from the server, and from the cache
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-c", _ASK, gateway.base_url, gateway.key, install),
                    stdout=asyncio.subprocess.PIPE,
                )
                said, _ = await process.communicate()
                assert process.returncode == 0
                found = [[pytest.approx(vector, abs=1e-6) for vector in one] for one in json.loads(said)]
                a, b = vector_of("a"), vector_of("b")
                assert found == [[a], [a, b], [vector_of([5, 6])], [a]]
            assert len(upstream.calls) == 3

    async def test_vectors_go_by_their_index_whatever_order_the_server_sends_them_in(self) -> None:
        async def backwards(call: Call, wire: Wire) -> None:
            items = call.json["input"]
            data = [{"index": at, "embedding": vector_of(item)} for at, item in enumerate(items)]
            await wire.json({"data": data[::-1], "model": "m"})

        async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
            upstream.handler = backwards
            await post(gateway, "/v1/embeddings", {"model": "m1", "input": ["a", "b", "c"]})
            await gateway.idle()
            reply = await post(gateway, "/v1/embeddings", {"model": "m1", "input": ["c", "a", "b"]})
            assert reply.headers["x-cache"] == "HIT-EXACT"
            assert [each["embedding"] for each in reply.json()["data"]] == [
                pytest.approx(vector_of(each), abs=1e-6) for each in ("c", "a", "b")
            ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
        ("/v1/embeddings", {"input": "a"}),
        ("/v1/rerank", RERANK),
    ],
)
async def test_while_every_server_is_overloaded_each_answer_says_when_to_come_back(
    path: str, body: dict[str, object]
) -> None:
    """No more than two attempts each, and no busy loop of clients that were told nothing."""

    async def busy(call: Call, wire: Wire) -> None:
        await wire.json({"error": {"message": "busy"}}, status=503)

    async with (
        ScriptedUpstream() as one,
        ScriptedUpstream() as other,
        running_gateway(one, other) as gateway,
    ):
        one.handler = other.handler = busy
        for _ in range(12):
            reply = await post(gateway, path, {"model": "m1"} | body)
            assert reply.status_code == 503
            assert int(reply.headers["retry-after"]) >= 1
        assert len(one.calls) + len(other.calls) <= 24


@pytest.mark.parametrize("is_azure", [False, True])
async def test_the_official_sdks_speak_and_hear_through_the_gateway(is_azure: bool) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        if is_azure:
            sdk: openai.AsyncOpenAI = openai.AsyncAzureOpenAI(
                azure_endpoint=gateway.base_url, api_key=gateway.key, api_version="2024-06-01", max_retries=0
            )
        else:
            sdk = openai.AsyncOpenAI(base_url=gateway.base_url + "/v1", api_key=gateway.key, max_retries=0)
        async with sdk:
            upstream.reply(b'{"text": "hello"}')
            heard = await sdk.audio.transcriptions.create(model="m1", file=("a.wav", b"123"))
            assert heard.text == "hello"
            assert b'name="model"\r\n\r\nm\r\n' in upstream.calls[0].body
            upstream.reply(b"sound", content_type="audio/mpeg")
            said = await sdk.audio.speech.create(model="m1", voice="alloy", input="hello")
            assert said.content == b"sound"
            upstream.handler = embed
            assert len((await sdk.embeddings.create(model="m1", input=["a", "b"])).data) == 2
