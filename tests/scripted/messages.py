"""OpenAI replies as a model server would write them."""

from __future__ import annotations

import secrets
import time
from typing import Any


def delta(
    text: str | None = None,
    *,
    index: int = 0,
    finish: str | None = None,
    model: str = "m",
    chunk_id: str = "chatcmpl-scripted",
    **fields: Any,
) -> dict[str, Any]:
    """A chat completion chunk: `delta("hi")`, `delta(finish="stop")`, `delta(tool_calls=[…])`."""
    content = {} if text is None else {"content": text}
    choice = {"index": index, "delta": content | fields, "finish_reason": finish}
    return {
        "id": chunk_id,
        "object": "chat.completion.chunk",
        "created": 1,
        "model": model,
        "choices": [choice],
    }


def completion(text: str, *, model: str = "m", finish: str = "stop", n: int = 1) -> dict[str, Any]:
    """A chat completion with usage."""
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        for i in range(n)
    ]
    return {
        "id": f"chatcmpl-{secrets.token_hex(6)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": model,
        "choices": choices,
        "usage": usage(text, n),
    }


def usage(text: str, n: int) -> dict[str, int]:
    output = len(text.split()) * n
    return {"prompt_tokens": 7, "completion_tokens": output, "total_tokens": 7 + output}
