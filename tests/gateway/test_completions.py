"""Completions beside chat: through the gateway, in either form, from a server and from the cache."""

from __future__ import annotations

from typing import Any

import pytest
from openai.types import Completion

from tests.cases.speaking import official_sdk
from tests.gateway.posting import post
from tests.gateway.replying import (
    USAGE,
    message,
    response,
    text_chunk,
    text_completion,
    text_stream,
)
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream


async def test_a_completion_is_a_hit_in_either_form_whichever_was_stored() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for is_streamed in (True, False):
            prompt = f"Once upon a time {is_streamed}"
            upstream.stream(text_stream("there ", "was")) if is_streamed else upstream.reply_json(
                text_completion("there was")
            )
            await post(gateway, "/v1/completions", prompt=prompt, stream=is_streamed)
            async with official_sdk(gateway) as sdk:
                whole = await sdk.completions.create(model="m1", prompt=prompt, temperature=0)
                stream = await sdk.completions.create(
                    model="m1",
                    prompt=prompt,
                    temperature=0,
                    stream=True,
                    stream_options={"include_usage": True},
                )
                chunks = [chunk async for chunk in stream]
            assert (whole.choices[0].text, whole.choices[0].finish_reason) == ("there was", "stop")
            assert "".join(c.choices[0].text for c in chunks if c.choices) == "there was"
            assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"
            assert (whole.model, whole.object, whole.system_fingerprint is not None) == (
                "m1",
                "text_completion",
                not is_streamed,
            )
            assert whole.id.startswith("cmpl-")
            assert whole.usage == chunks[-1].usage
            assert whole.usage is not None
            assert whole.usage.to_dict() == USAGE
            assert {chunk.id for chunk in chunks} != {whole.id}
        assert [call.path for call in upstream.calls] == ["/v1/completions"] * 2


async def test_a_stored_completion_passes_for_a_fresh_one() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(text_completion("a", stop_reason=None, x_new=[1.5]))
        fresh, again = [await post(gateway, "/v1/completions", prompt="p") for _ in range(2)]
    assert [reply.headers["x-cache"] for reply in (fresh, again)] == ["MISS", "HIT-EXACT"]
    Completion.model_validate_json(again.content, strict=True)
    assert again.json() == fresh.json() | {name: again.json()[name] for name in ("id", "created")}


async def test_log_probabilities_and_tokens_of_a_stream_are_put_together() -> None:
    def chunk(text: str, at: int) -> dict[str, Any]:
        part = text_chunk(text)
        part["choices"][0]["logprobs"] = {
            "tokens": [text],
            "token_logprobs": [-0.5],
            "top_logprobs": [{text: -0.5}],
            "text_offset": [at],
        }
        return part

    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.stream([chunk("a", 0), chunk("b", 1), text_chunk("", finish="stop"), "[DONE]"])
        await post(gateway, "/v1/completions", prompt="p", logprobs=1, stream=True)
        again = await post(gateway, "/v1/completions", prompt="p", logprobs=1)
    assert (again.headers["x-cache"], again.json()["choices"][0]["text"]) == ("HIT-EXACT", "ab")
    assert again.json()["choices"][0]["logprobs"] == {
        "tokens": ["a", "b"],
        "token_logprobs": [-0.5, -0.5],
        "top_logprobs": [{"a": -0.5}, {"b": -0.5}],
        "text_offset": [0, 1],
    }


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"prompt": ["a", "b"]}, "prompt-not-text"),
        ({"prompt": [1, 2, 3]}, "prompt-not-text"),
        ({"suffix": "."}, "suffix"),
        ({"echo": True}, "logprobs"),
        ({"logprobs": 0}, "logprobs"),
        ({"prompt_logprobs": 0}, "logprobs"),
        ({"best_of": 2}, "several-choices"),
        ({"n": 2}, "several-choices"),
    ],
)
async def test_what_a_similar_prompt_cannot_answer_is_matched_exactly(
    fields: dict[str, Any], reason: str
) -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        upstream.reply_json(text_completion("x", "y"))
        fresh, again = [
            await post(gateway, "/v1/completions", **({"prompt": "p"} | fields)) for _ in range(2)
        ]
    assert (fresh.headers["x-cache"], fresh.headers["x-cache-reason"]) == ("MISS", reason)
    assert again.headers["x-cache"] == "HIT-EXACT"
    assert [choice["text"] for choice in again.json()["choices"]] == ["x", "y"]


async def test_the_same_words_are_another_question_at_another_endpoint() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        await gateway.chat("hi")
        for path, name, reply in (
            ("/v1/completions", "prompt", text_completion("a")),
            ("/v1/responses", "input", response(message("b"))),
        ):
            upstream.reply_json(reply)
            assert (await post(gateway, path, **{name: "hi"})).headers["x-cache"] == "MISS"


async def test_fields_nobody_knows_reach_the_server_as_they_are() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        for path in ("/v1/completions", "/v1/responses"):
            raw = b'{"model":"m1","prompt":"p","input":"p","x_new":{"a":[1.50]},"min_p":0.10}'
            upstream.reply_json({"error": {"message": "no"}}, status=400)
            headers = {"authorization": f"Bearer {gateway.key}"}
            await gateway.client.post(path, content=raw, headers=headers)
            assert upstream.calls[-1].body == raw.replace(b'"m1"', b'"m"')
