"""Embeddings, tokens and Anthropic's messages of a real llama.cpp, through the gateway."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import numpy as np
import pytest
import pytest_asyncio
from openai import AsyncOpenAI, BadRequestError

from tests.e2e.asking import PATIENT, sdk
from tests.running import RunningGateway, running_gateway

MESSAGES = {
    "model": "m1",
    "max_tokens": 8,
    "temperature": 0,
    "messages": [{"role": "user", "content": "Hi!"}],
}


@pytest.fixture(scope="module")
def llama() -> Iterator[str]:
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    from tests.backends.llama import running_llama

    with running_llama(embeddings=True) as running:
        yield running.base_url


@pytest_asyncio.fixture
async def gateway(llama: str) -> AsyncIterator[RunningGateway]:
    async with running_gateway(llama, **PATIENT) as running:
        yield running


async def post(gateway: RunningGateway, path: str, **body: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {gateway.key}"}
    reply = await gateway.client.post(path, json={"model": "m1"} | body, headers=headers)
    await gateway.idle()
    return reply


async def embedded(client: AsyncOpenAI, gateway: RunningGateway, **asked: Any) -> tuple[str, np.ndarray, int]:
    reply = await client.embeddings.with_raw_response.create(model="m1", **asked)
    await gateway.idle()
    read = reply.parse()
    data: list[Any] = list(read.data)  # base64 where it was asked for, whatever its type says
    vectors = [
        np.frombuffer(base64.b64decode(each.embedding), "<f4")
        if isinstance(each.embedding, str)
        else np.array(each.embedding, "<f4")
        for each in data
    ]
    assert [each.index for each in read.data] == list(range(len(vectors)))
    return reply.headers["x-cache"], np.stack(vectors), read.usage.prompt_tokens


async def asked_directly(client: AsyncOpenAI, texts: list[str]) -> np.ndarray:
    """In the same batches as the gateway asks: llama.cpp's vector of a text depends on those computed beside it."""
    reply = await client.embeddings.create(model="m", input=texts, encoding_format="float")
    return np.array([each.embedding for each in reply.data], "<f4")


@pytest.mark.parametrize("form", [{}, {"encoding_format": "float"}, {"encoding_format": "base64"}])
async def test_vectors_are_the_servers_own_cold_warm_and_mixed(
    gateway: RunningGateway, llama: str, form: dict[str, Any]
) -> None:
    """`{}` is what the SDK does by itself: it asks for base64 and decodes it."""
    async with (
        sdk(gateway) as client,
        AsyncOpenAI(base_url=f"{llama}/v1", api_key="none", max_retries=0) as direct,
    ):
        texts = ["the flight to Tokyo", "a kettle"]
        truth = np.concatenate([await asked_directly(direct, each) for each in (texts, ["new"])])
        cold = await embedded(client, gateway, input=texts, **form)
        warm = await embedded(client, gateway, input=texts, **form)
        mixed = await embedded(client, gateway, input=["new", *texts], **form)
    assert [word for word, _, _ in (cold, warm, mixed)] == ["MISS", "HIT-EXACT", "MISS"]
    for (_, found, _), expected in ((cold, truth[:2]), (warm, truth[:2]), (mixed, truth[[2, 0, 1]])):
        assert np.abs(found - expected).max() < 1e-5
    assert (warm[1] == cold[1]).all()
    assert (mixed[1][1:] == cold[1]).all()
    assert warm[2] == cold[2] < mixed[2]


async def test_a_text_as_token_ids_is_an_input_of_its_own(gateway: RunningGateway) -> None:
    tokens = (await post(gateway, "/tokenize", content="hello world", prompt="hello world")).json()["tokens"]
    async with sdk(gateway) as client:
        found = [
            (await embedded(client, gateway, input=each))
            for each in ("hello world", tokens, tokens, [tokens])
        ]
    assert [word for word, _, _ in found] == ["MISS", "MISS", "HIT-EXACT", "HIT-EXACT"]
    assert float(np.dot(found[0][1][0], found[1][1][0])) > 0.99


async def test_what_the_server_cannot_embed_is_its_own_refusal_or_ours(gateway: RunningGateway) -> None:
    async with sdk(gateway) as client:
        for asked in ("", [], ["a", ""]):
            with pytest.raises(BadRequestError):
                await client.embeddings.create(model="m1", input=asked)
    reply = await post(gateway, "/v1/embeddings", input="river " * 900)
    assert reply.status_code >= 400
    assert "too large" in reply.json()["error"]["message"]
    assert (await post(gateway, "/v1/embeddings", input="river " * 900)).status_code == reply.status_code


async def test_tokens_there_and_back(gateway: RunningGateway) -> None:
    tokens = (await post(gateway, "/tokenize", content="hello world")).json()["tokens"]
    assert tokens
    text = (await post(gateway, "/v1/detokenize", tokens=tokens)).json()["content"]
    assert text == "hello world"


async def test_a_message_is_whole_or_in_events_with_the_public_models_name(gateway: RunningGateway) -> None:
    whole = (await post(gateway, "/v1/messages", **MESSAGES)).json()
    assert (whole["type"], whole["model"], whole["stop_reason"]) == ("message", "m1", "max_tokens")
    counted = (await post(gateway, "/v1/messages/count_tokens", **MESSAGES)).json()
    assert counted["input_tokens"] > 0
    streamed = await post(gateway, "/v1/messages", **MESSAGES, stream=True)
    blocks = [block.split("\n") for block in streamed.text.split("\n\n") if block]
    names = [name.removeprefix("event: ") for name, _ in blocks]
    events = [json.loads(data.removeprefix("data: ")) for _, data in blocks]
    assert (names[0], names[-1]) == ("message_start", "message_stop")
    assert names == [event["type"] for event in events]
    assert events[0]["message"]["model"] == "m1"
    said = "".join(
        event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta"
    )
    assert said == whole["content"][0]["text"]


async def test_what_a_server_does_not_have_is_told_in_its_words(gateway: RunningGateway) -> None:
    reply = await post(gateway, "/v1/rerank", query="a", documents=["b"])
    assert reply.status_code == 501
    assert "does not support reranking" in reply.json()["error"]["message"]
