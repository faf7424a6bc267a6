"""Requests that a real llama.cpp answers the same way each time, of all endpoints and fields that it knows.

Made from a seed, so that they are the same everywhere.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

REQUESTS = 40
# Greedy, and nothing kept from one request to the next: what was computed in another batch differs in its last digits.
_SAME_EACH_TIME: dict[str, Any] = {"temperature": 0, "seed": 7, "cache_prompt": False}
_TEXTS = [
    "Why is the sky blue?",
    "怎样学好英语呢",
    "Emoji 🧑‍🚀?",
    'Quotes " and \\ and </s>',
    "Count: 1, 2.50, 1e3",
]
_SCHEMA = {"type": "object", "properties": {"a": {"enum": ["x", "y"]}}, "required": ["a"]}
_TOOL = {"type": "function", "function": {"name": "rain", "parameters": {"type": "object", "properties": {}}}}
_GENERATING: dict[str, list[Any]] = {
    "top_p": [0.5, 1],
    "top_k": [1, 40],
    "min_p": [0.1],
    "presence_penalty": [0, 0.5],
    "frequency_penalty": [0.5],
    "repeat_penalty": [1.1],
    "logit_bias": [{"1": 1}],
    "n_keep": [1],
    "user": ["ann"],
    "metadata": [{"team": "a"}],
    "x_new": [None, 1.50, {"b": 1, "a": [2.0, 1e-7]}],
}
_CHAT: dict[str, list[Any]] = {
    "n": [2],
    "logprobs": [True],
    "response_format": [{"type": "json_schema", "json_schema": {"name": "s", "schema": _SCHEMA}}],
    "tools": [[_TOOL]],
    "parallel_tool_calls": [True],
    "chat_template_kwargs": [{"enable_thinking": False}],
}
_WRONG: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a " * 6_000}]}),
    ("/v1/chat/completions", {"messages": [{"role": "nobody"}]}),
    (
        "/v1/chat/completions",
        {"messages": [{"role": "user", "content": "a"}], "tools": "none", "max_tokens": 1},
    ),
    ("/v1/completions", {"prompt": "a " * 6_000}),
]


@dataclass(frozen=True)
class Asked:
    path: str
    body: dict[str, Any]


def corpus(model: str) -> list[Asked]:
    rng = random.Random(11)
    kinds = [_chat, _chat, _chat, _completion, _completion, _response, _tokenizing, _message]
    made = [rng.choice(kinds)(rng) for _ in range(REQUESTS)]
    return [Asked(path, {"model": model, **body}) for path, body in [*made, *_WRONG]]


def _chat(rng: random.Random) -> tuple[str, dict[str, Any]]:
    turns = [{"role": "user", "content": rng.choice([_text(rng), [{"type": "text", "text": _text(rng)}]])}]
    if rng.random() < 0.5:
        turns.insert(0, {"role": "system", "content": "Be brief."})
    fields = _some(rng, _GENERATING | _CHAT)
    if fields.get("logprobs"):
        fields["top_logprobs"] = 2
    limit = rng.choice(["max_tokens", "max_completion_tokens"])
    return "/v1/chat/completions", {
        **_delivered(rng),
        **_SAME_EACH_TIME,
        **fields,
        limit: _limit(fields),
        "messages": turns,
    }


def _completion(rng: random.Random) -> tuple[str, dict[str, Any]]:
    fields = _some(rng, _GENERATING)
    return "/v1/completions", {
        **_delivered(rng),
        **_SAME_EACH_TIME,
        **fields,
        "max_tokens": _limit(fields),
        "prompt": _text(rng),
    }


def _response(rng: random.Random) -> tuple[str, dict[str, Any]]:
    asked = {"input": _text(rng), "instructions": "Be brief.", "max_output_tokens": 4}
    return "/v1/responses", {**_SAME_EACH_TIME, **asked, "stream": rng.random() < 0.5}


def _tokenizing(rng: random.Random) -> tuple[str, dict[str, Any]]:
    if rng.random() < 0.5:
        return "/detokenize", {"tokens": [rng.randrange(100, 40_000) for _ in range(8)]}
    return "/tokenize", {"content": _text(rng), "with_pieces": rng.random() < 0.5}


def _message(rng: random.Random) -> tuple[str, dict[str, Any]]:
    asked = {"max_tokens": 4, "messages": [{"role": "user", "content": _text(rng)}]}
    return "/v1/messages", {**_SAME_EACH_TIME, **asked, "stream": rng.random() < 0.5}


def _text(rng: random.Random) -> str:
    return f"{rng.randrange(1000)} {rng.choice(_TEXTS)}"


def _limit(fields: dict[str, Any]) -> int:
    return 30 if "stop" in fields else 4


def _delivered(rng: random.Random) -> dict[str, Any]:
    if rng.random() < 0.5:
        return {}
    usage = [{"stream_options": {"include_usage": flag}} for flag in (True, False)]
    return {"stream": True} | rng.choice([{}, *usage])


def _some(rng: random.Random, fields: dict[str, list[Any]]) -> dict[str, Any]:
    chosen = {name: rng.choice(fields[name]) for name in rng.sample(sorted(fields), rng.randint(0, 4))}
    # Most are to end by themselves: what is cut by its limit is not kept.
    return chosen | ({"stop": [" ", ".", ","]} if rng.random() < 0.7 else {})
