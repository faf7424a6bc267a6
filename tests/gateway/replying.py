"""Replies to completions and responses as model servers write them, whole and as streams."""

from __future__ import annotations

import json
from typing import Any

from tests.scripted import Part

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
USED = {
    "input_tokens": 3,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 4,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 7,
}


def text_completion(*texts: str, finish: str = "stop", **choice: Any) -> dict[str, Any]:
    choices = [
        {"index": at, "text": text, "logprobs": None, "finish_reason": finish, **choice}
        for at, text in enumerate(texts)
    ]
    head = {"id": "cmpl-up", "object": "text_completion", "created": 1, "model": "m"}
    return {**head, "choices": choices, "usage": USAGE, "system_fingerprint": "fp"}


def text_chunk(text: str, *, index: int = 0, finish: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": index, "text": text, "logprobs": None, "finish_reason": finish}
    return {
        "id": "cmpl-up",
        "object": "text_completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    } | more


def text_stream(*texts: str, usage: bool = True) -> list[Part]:
    last = text_chunk("") | {"choices": [], "usage": USAGE}
    parts = [*(text_chunk(text) for text in texts), text_chunk("", finish="stop")]
    return [*parts, *([last] if usage else []), "[DONE]"]


def message(text: str, **part: Any) -> dict[str, Any]:
    content = {"type": "output_text", "text": text, "annotations": [], "logprobs": [], **part}
    return {
        "id": "msg_up",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [content],
    }


def response(*items: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {
        "id": "resp_up",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": "m",
        "output": list(items),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "metadata": {},
        "usage": USED,
    } | members


def response_stream(whole: dict[str, Any], *, last: str = "response.completed") -> list[Part]:
    """Of messages: as vLLM tells them, word by word."""
    told: list[tuple[str, dict[str, Any]]] = []
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    told += [("response.created", {"response": begun}), ("response.in_progress", {"response": begun})]
    for at, item in enumerate(whole["output"]):
        told.append(("response.output_item.added", {"output_index": at, "item": {**item, "content": []}}))
        for number, part in enumerate(item["content"]):
            where = {"item_id": item["id"], "output_index": at, "content_index": number}
            told.append(("response.content_part.added", where | {"part": {**part, "text": ""}}))
            told += [
                ("response.output_text.delta", where | {"delta": word, "logprobs": []})
                for word in part["text"].split(" ")
            ]
            told.append(("response.output_text.done", where | {"text": part["text"], "logprobs": []}))
            told.append(("response.content_part.done", where | {"part": part}))
        told.append(("response.output_item.done", {"output_index": at, "item": item}))
    told.append((last, {"response": whole}))
    return [event(name, sequence_number=at, **members) for at, (name, members) in enumerate(told)]


def event(name: str, **members: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **members})}\n\n".encode()
