"""Two hundred requests of all fields, asked of the server itself and through the gateway: what differs is listed here.

The server is one that answers the same to the same, in the three dialects, with answers of many kinds. It is named as
its model is in public, so nothing is mapped.
"""

from __future__ import annotations

import hashlib
import json
import random
from typing import Any

import httpx

from gateway.settings.reading import Settings
from tests.gateway.replying import message, response, response_stream, text_chunk, text_completion
from tests.gateway.test_eligibility import VARIANTS
from tests.running import RunningGateway, running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire, completion, delta

REQUESTS = 200
# What the gateway changes of a request, and what a stored answer has of its own.
CHANGED = {"stream_options"}
FRESH = {"id", "created", "created_at", "item_id"}
TEXTS = [
    "Why is the sky blue?",
    "怎样学好英语呢",
    "emoji 🧑‍🚀 and \u0000 and \u2028",
    "a" * 5_000,
    'quotes " and \\ and </script>',
]
EXTRAS = {
    "guided_json": {"type": "object", "properties": {"a": {"const": 1.50}}},
    "mm_processor_kwargs": {"x": [1, 2.0, 1e-7, -0.0, 12345678901234567890]},
    "priority": 0,
    "metadata": {"team": "a"},
    "user": "ann",
    "x_new": None,
}


class Server(ScriptedUpstream):
    """Answers by a hash of what it is asked, the way of delivery and usage apart."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        asked = {name: value for name, value in call.json.items() if name not in ("stream", "stream_options")}
        seed = hashlib.sha256((call.path + json.dumps(asked, sort_keys=True)).encode()).hexdigest()
        rng, options = random.Random(seed), call.json.get("stream_options") or {}
        whole, parts = SPEAKING[call.path](rng, f"answer {seed[:8]} " + rng.choice(TEXTS))
        if not call.json.get("stream"):
            await wire.reply(
                json.dumps(whole, ensure_ascii=rng.random() < 0.5, indent=rng.choice([None, 1])).encode()
            )
            return
        if call.path != "/v1/responses":
            usage = (
                [parts[-1] | {"choices": [], "usage": whole["usage"]}] if options.get("include_usage") else []
            )
            parts = [*parts, *usage, "[DONE]"]
        await wire.stream(parts)


def _chat(rng: random.Random, text: str) -> tuple[dict[str, Any], list[Any]]:
    head = {"id": f"chatcmpl-{rng.random()}", "system_fingerprint": rng.choice(["fp", None])}
    whole = completion(text) | head | {"created": 1}
    choice = whole["choices"][0]
    match rng.choice(["text", "calls", "refusal", "reasoning", "logprobs", "length"]):
        case "calls":
            call = {
                "id": "c",
                "type": "function",
                "function": {"name": "f", "arguments": json.dumps({"a": text})},
            }
            choice |= {"message": {"role": "assistant", "content": None, "tool_calls": [call]}}
            choice["finish_reason"] = "tool_calls"
            fragments = [{"index": 0, **call, "function": {"name": "f", "arguments": ""}}]
            fragments += [{"index": 0, "function": {"arguments": call["function"]["arguments"]}}]
            chunks = [delta(tool_calls=[fragment]) for fragment in fragments]
        case "refusal":
            choice["message"] = {"role": "assistant", "content": None, "refusal": text}
            chunks = [delta(refusal=text)]
        case "reasoning":
            choice["message"]["reasoning_content"] = "because"
            chunks = [delta(reasoning_content="because"), delta(text)]
        case "logprobs":
            choice["logprobs"] = {"content": [{"token": text, "logprob": -0.25, "top_logprobs": []}]}
            chunks = [delta(text)]
            chunks[0]["choices"][0]["logprobs"] = choice["logprobs"]
        case kind:
            choice["finish_reason"] = "length" if kind == "length" else "stop"
            chunks = [delta(text[:5]), delta(text[5:])]
    chunks = [delta("", role="assistant"), *chunks, delta(finish=choice["finish_reason"])]
    return whole, [chunk | head for chunk in chunks]


def _completion(rng: random.Random, text: str) -> tuple[dict[str, Any], list[Any]]:
    head = {"id": f"cmpl-{rng.random()}", "system_fingerprint": rng.choice(["fp", None])}
    whole = text_completion(text, stop_reason=None) | head
    chunks = [text_chunk(text[:5]), text_chunk(text[5:]), text_chunk("", finish="stop")]
    return whole, [chunk | head for chunk in chunks]


def _response(rng: random.Random, text: str) -> tuple[dict[str, Any], list[Any]]:
    whole = response(message(text), id=f"resp_{rng.random()}", temperature=rng.choice([1.0, 0.5]))
    return whole, response_stream(whole)


SPEAKING = {"/v1/chat/completions": _chat, "/v1/completions": _completion, "/v1/responses": _response}


def corpus() -> list[tuple[str, dict[str, Any]]]:
    rng = random.Random(7)
    found = []
    for number in range(REQUESTS):
        path = rng.choice(list(SPEAKING))
        text = f"{number} {rng.choice(TEXTS)}"
        turns = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        question: dict[str, Any] = {
            "/v1/chat/completions": {"messages": turns},
            "/v1/completions": {"prompt": rng.choice([text, [text]])},
            "/v1/responses": {"input": rng.choice([text, turns])},
        }[path]
        names = rng.sample(sorted(VARIANTS.keys() - {"prompt", "input"}), rng.randint(0, 6))
        fields = {name: rng.choice(VARIANTS[name]) for name in names}
        extras = {name: EXTRAS[name] for name in rng.sample(sorted(EXTRAS), rng.randint(0, 3))}
        body = {"model": "m", **fields, **extras, **question}
        if rng.random() < 0.5:
            body["stream"] = True
            if rng.random() < 0.5:
                body["stream_options"] = {"include_usage": rng.random() < 0.5}
        found.append((path, body))
    return found


async def ask(client: httpx.AsyncClient, base_url: str, key: str, path: str, body: bytes) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    return await client.post(base_url + path, content=body, headers=headers)


def said(reply: httpx.Response) -> Any:
    """The bytes of a whole reply; of a stream its events, since how they are framed says nothing."""
    if reply.headers["content-type"].startswith("text/event-stream"):
        return [line for line in reply.text.split("\n") if line]
    return reply.content


async def test_what_the_server_says_is_what_the_caller_hears_and_the_other_way_round() -> None:
    async with Server() as server:
        pools = {"m": [{"url": server.base_url, "name": "one", "model": "m", "revision": "r1"}]}
        settings = Settings(pools=pools, store={"deadline_ms": 5000}, cache={"embedder": {"kind": "none"}})
        async with running_gateway(settings=settings) as gateway:
            hits = 0
            for path, body in corpus():
                raw = json.dumps(body, ensure_ascii=False).encode()
                direct = await ask(gateway.client, server.base_url, "none", path, raw)
                through = await ask(gateway.client, gateway.base_url, gateway.key, path, raw)
                assert through.headers["x-cache"] == "MISS"
                assert (direct.status_code, direct.headers["content-type"].partition(";")[0]) == (
                    through.status_code,
                    through.headers["content-type"].partition(";")[0],
                )
                assert said(through) == said(direct)
                heard, passed_on = [call.json for call in server.calls[-2:]]
                assert heard == body
                assert {n: v for n, v in passed_on.items() if n not in CHANGED} == {
                    n: v for n, v in body.items() if n not in CHANGED
                }
                hits += await _again(gateway, path, raw, direct)
    assert hits > 150


async def _again(gateway: RunningGateway, path: str, raw: bytes, direct: httpx.Response) -> bool:
    """From the cache, if it was kept: JSON is equal but for what is fresh, a stream adds up to the same."""
    await gateway.idle()
    again = await ask(gateway.client, gateway.base_url, gateway.key, path, raw)
    is_kept = again.headers["x-cache"] == "HIT-EXACT"
    if not is_kept:
        assert again.headers["x-cache"] == "MISS"
        assert "length" in direct.text
    elif again.headers["content-type"].startswith("application/json"):
        assert _without_fresh(again.json()) == _without_fresh(direct.json())
    else:
        assert _sum(again) == _sum(direct)
    return is_kept


def _without_fresh(value: Any) -> Any:
    if isinstance(value, dict):
        echoed = {"metadata", "user"} if value.get("object") == "response" else set()
        return {n: _without_fresh(v) for n, v in value.items() if n not in FRESH | echoed}
    return [_without_fresh(item) for item in value] if isinstance(value, list) else value


def _sum(reply: httpx.Response) -> Any:
    """Texts and arguments of a stream, joined, and how it ended."""
    events = [json.loads(line[6:]) for line in said(reply) if line.startswith("data: {")]
    found: dict[str, Any] = {}
    for event in events:
        for choice in event.get("choices") or ():
            told = choice.get("delta") or choice
            for name in ("content", "refusal", "reasoning_content", "text"):
                found[name] = found.get(name, "") + (told.get(name) or "")
            for call in told.get("tool_calls") or ():
                found["arguments"] = found.get("arguments", "") + (call["function"].get("arguments") or "")
            found["finish"] = choice.get("finish_reason") or found.get("finish")
        if event.get("usage"):
            found["usage"] = event["usage"]
        if event.get("type") == "response.output_text.delta":
            found["delta"] = found.get("delta", "") + event["delta"].replace(" ", "")
        if event.get("type") == "response.completed":
            found["response"] = _without_fresh(event["response"])
    return found


def test_the_corpus_has_every_field_and_way() -> None:
    bodies = [body for _, body in corpus()]
    assert {name for body in bodies for name in body} >= VARIANTS.keys() | EXTRAS.keys() | {"stream"}
    assert {path for path, _ in corpus()} == SPEAKING.keys()
