"""A stored answer as a reply: JSON, or replayed as the stream the caller asked for.

The caller gets a fresh `id` and `created` and the model name it asked for; everything else is as it was stored, the
token counts of the original call included.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

DONE = b"[DONE]"


class Reply(msgspec.Struct, frozen=True):
    """What each reply has of its own."""

    id: str
    created: int
    model: str

    @classmethod
    def fresh(cls, *, model: str, now_s: float) -> Reply:
        id_ = random.randbytes(12).hex()  # noqa: S311 - to be unique, not to be secret
        return cls(id=f"chatcmpl-{id_}", created=int(now_s), model=model)

    def head(self, object_: str) -> dict[str, Any]:
        return {"id": self.id, "object": object_, "created": self.created, "model": self.model}


def as_json(payload: bytes, reply: Reply) -> bytes:
    """The whole completion. The payload is not parsed: its members are as they were stored."""
    return msgspec.json.encode(reply.head("chat.completion"))[:-1] + b"," + payload + b"}"


def as_chunks(payload: bytes, reply: Reply, *, include_usage: bool) -> Iterator[bytes]:
    """The chunks of a stream, as data of server-sent events, `[DONE]` included."""
    stored = msgspec.json.decode(b"{" + payload + b"}")
    head = reply.head("chat.completion.chunk")
    head |= {name: stored[name] for name in ("system_fingerprint", "service_tier") if name in stored}
    for choice in stored["choices"]:
        index = choice.get("index", 0)
        for part in _deltas(choice):
            yield msgspec.json.encode({**head, "choices": [{"index": index, **part}]})
    if include_usage and stored.get("usage") is not None:
        yield msgspec.json.encode({**head, "choices": [], "usage": stored["usage"]})
    yield DONE


def _deltas(choice: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = choice["message"]
    yield {"delta": {"role": "assistant", "content": ""}, "logprobs": None, "finish_reason": None}
    for name in ("reasoning_content", "reasoning", "refusal"):
        if message.get(name):
            yield {"delta": {name: message[name]}, "logprobs": None, "finish_reason": None}
    if message.get("content"):
        logprobs = choice.get("logprobs")
        yield {"delta": {"content": message["content"]}, "logprobs": logprobs, "finish_reason": None}
    for at, call in enumerate(message.get("tool_calls") or ()):
        yield {"delta": {"tool_calls": [{"index": at, **call}]}, "logprobs": None, "finish_reason": None}
    last = {
        name: v for name, v in choice.items() if name not in ("index", "message", "logprobs", "finish_reason")
    }
    yield {"delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"], **last}
