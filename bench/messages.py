"""What benchmark requests ask and what the fast model server answers: about 1 KB each, as real chats are."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from typing import Any

MODEL = "bench-model"
# What the official Python SDK sends with each request, beside its key.
SDK_HEADERS = {
    "accept-encoding": "gzip, deflate",
    "connection": "keep-alive",
    "accept": "application/json",
    "content-type": "application/json",
    "user-agent": "OpenAI/Python 3.57.0",
    "x-stainless-lang": "python",
    "x-stainless-package-version": "3.57.0",
    "x-stainless-os": "Linux",
    "x-stainless-arch": "x64",
    "x-stainless-runtime": "CPython",
    "x-stainless-runtime-version": "3.11.7",
    "x-stainless-async": "false",
    "x-stainless-retry-count": "0",
    "x-stainless-read-timeout": "600",
}
CHUNKS = 64  # of a streamed answer; the usage chunk and [DONE] come on top

_SYSTEM = (
    "You are the assistant of a company that sells kitchen appliances. Answer in plain sentences, name the model "
    "where it matters, never invent a price, and send whoever asks about an order to the order desk. If a question "
    "has nothing to do with kitchens or appliances, say so politely and offer to help with those instead. Keep to "
    "four sentences at most unless the customer asks for more, and always prefer the metric system in measures. "
    "Never speak of other companies, of politics or of people; never give medical, legal or financial advice. When a "
    "customer is angry, stay calm, say in one sentence that you are sorry, and then go on with what can be done "
    "about it now. Names of models are written as they stand on the box, without quotes."
)
_WORD = "kettle "
_HEAD = {"id": "chatcmpl-bench", "created": 1_700_000_000, "model": MODEL}
_USAGE = {"prompt_tokens": 160, "completion_tokens": 64, "total_tokens": 224}


def chat(question: str, *, is_stream: bool = False) -> str:
    """A request body as an SDK sends it."""
    body: dict[str, Any] = {
        "model": MODEL,
        "messages": [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": question}],
        "temperature": 0.2,
        "max_tokens": 256,
    }
    if is_stream:
        body["stream"] = True
    return json.dumps(body, separators=(",", ":"))


def unique_chats(count: int, tag: str, *, is_stream: bool = False) -> list[str]:
    """Questions that nobody asked before."""
    return [chat(f"Why does kettle {tag}-{n} hum?", is_stream=is_stream) for n in range(count)]


def completion() -> bytes:
    """The JSON answer, about 900 bytes."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": (_WORD * 90).strip()},
        "logprobs": None,
        "finish_reason": "stop",
    }
    return json.dumps(_HEAD | {"object": "chat.completion", "choices": [choice], "usage": _USAGE}).encode()


def chunks() -> list[bytes]:
    """The events of the streamed answer: CHUNKS of content, one of usage, [DONE]."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": _WORD} for _ in range(CHUNKS - 2)]
    documents: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}]}
        for delta in deltas
    ]
    documents.append({"choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}]})
    documents.append({"choices": [], "usage": _USAGE})
    events = [json.dumps(_HEAD | {"object": "chat.completion.chunk"} | document) for document in documents]
    return [f"data: {event}\n\n".encode() for event in [*events, "[DONE]"]]


# Questions of about 32 tokens for the semantic tier: templates with many fillings, each in several near wordings.

_THINGS = (
    "kettle", "toaster", "blender", "freezer", "dishwasher", "oven", "coffee machine", "rice cooker",
    "microwave", "waffle iron", "juicer", "food processor", "stove", "hand mixer", "ice maker", "deep fryer",
)  # fmt: skip
_PARTS = ("lid", "handle", "cable", "display", "filter", "seal", "switch", "housing")
_TROUBLES = ("smells strange", "feels very hot", "makes a loud noise", "looks dirty")
_WORDINGS = ("could I", "can I", "must I", "would you", "might I", "do I")
_TEMPLATE = (
    "What {wording} do when the {part} of my {thing} {trouble} after I have used it in the kitchen every "
    "morning and evening for several weeks?"
)


def questions() -> list[str]:
    """What is stored."""
    return list(_worded("should I"))


def similar_questions() -> Iterator[str]:
    """The same in other words, none twice: an audited hit is an exact one the next time."""
    return itertools.chain.from_iterable(_worded(wording) for wording in _WORDINGS)


def _worded(wording: str) -> Iterator[str]:
    for thing, part, trouble in itertools.product(_THINGS, _PARTS, _TROUBLES):
        yield _TEMPLATE.format(wording=wording, thing=thing, part=part, trouble=trouble)


def unlike_questions(count: int, seed: str) -> Iterator[str]:
    """Questions that are near to no other: words at random, of which most are one token each."""
    rng, words = random.Random(seed), _WORDS.split()  # the same questions in each run
    for _ in range(count):
        yield f"What about {' '.join(rng.choices(words, k=27))}?"


_WORDS = (
    "river stone window garden letter music summer winter bridge mountain paper silver orange market forest island "
    "doctor teacher engine planet shadow mirror candle ribbon castle village harbor desert thunder feather blanket "
    "basket hammer ladder pocket button jacket camera ticket monkey tiger eagle dragon turtle rabbit spider salmon "
    "pepper butter cheese lemon cherry potato tomato coffee sugar honey bread dinner kitchen bedroom office school "
    "church temple palace museum theater station airport railway highway tunnel corner square circle triangle"
)
