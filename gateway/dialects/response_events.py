"""Tells a whole response as the events of a stream, numbered, in the order that OpenAI sends them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import msgspec

from backends import encode

from .dialect import Manner

_Told = tuple[str, dict[str, Any]]  # the name of an event and its members


def named(name: str, members: dict[str, Any]) -> bytes:
    return b"event: %s\n%s" % (name.encode(), encode(msgspec.json.encode(members)))


def events_of(response: dict[str, Any], manner: Manner) -> Iterator[bytes]:
    numbers = count()
    for name, members in _told(response, manner.pieces):
        yield named(name, {"type": name, "sequence_number": next(numbers), **members})


def _told(response: dict[str, Any], pieces: Callable[[str], list[str]]) -> Iterator[_Told]:
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    if "completed_at" in begun:
        begun["completed_at"] = None
    yield "response.created", {"response": begun}
    yield "response.in_progress", {"response": begun}
    for at, item in enumerate(response["output"]):
        yield "response.output_item.added", {"output_index": at, "item": _begun(item)}
        where = {"item_id": item.get("id"), "output_index": at}
        for name, members in _item_told(item, pieces):
            yield name, where | members
        yield "response.output_item.done", {"output_index": at, "item": item}
    yield f"response.{response.get('status') or 'completed'}", {"response": response}


def _begun(item: dict[str, Any]) -> dict[str, Any]:
    """The item before anything of it was told."""
    empty = {"content": [], "summary": [], "arguments": "", "input": ""}
    begun = {name: empty[name] if name in empty and value else value for name, value in item.items()}
    return begun | ({"status": "in_progress"} if item.get("status") is not None else {})


def _item_told(item: dict[str, Any], pieces: Callable[[str], list[str]]) -> Iterator[_Told]:
    match item.get("type"):
        case "function_call":
            arguments = item.get("arguments", "")
            yield "response.function_call_arguments.delta", {"delta": arguments}
            yield "response.function_call_arguments.done", {"name": item.get("name"), "arguments": arguments}
        case "custom_tool_call":
            yield "response.custom_tool_call_input.delta", {"delta": item.get("input", "")}
            yield "response.custom_tool_call_input.done", {"input": item.get("input", "")}
    for at, part in enumerate(item.get("summary") or ()):
        where = {"summary_index": at}
        for name, members in _summary_told(part):
            yield name, where | members
    for at, part in enumerate(item.get("content") or ()):
        where = {"content_index": at}
        blank = {"text": "", "refusal": "", "annotations": [], "logprobs": []}
        begun = {name: blank[name] if name in blank and value else value for name, value in part.items()}
        yield "response.content_part.added", where | {"part": begun}
        for name, members in _part_told(part, pieces):
            yield name, where | members
        yield "response.content_part.done", where | {"part": part}


def _part_told(part: dict[str, Any], pieces: Callable[[str], list[str]]) -> Iterator[_Told]:
    match part.get("type"):
        case "output_text":
            logprobs = part.get("logprobs") or []
            for piece in [part["text"]] if logprobs else pieces(part["text"]):
                yield "response.output_text.delta", {"delta": piece, "logprobs": logprobs}
            for at, annotation in enumerate(part.get("annotations") or ()):
                told = {"annotation_index": at, "annotation": annotation}
                yield "response.output_text.annotation.added", told
            yield "response.output_text.done", {"text": part["text"], "logprobs": logprobs}
        case "refusal":
            yield "response.refusal.delta", {"delta": part.get("refusal", "")}
            yield "response.refusal.done", {"refusal": part.get("refusal", "")}
        case "reasoning_text":
            yield "response.reasoning_text.delta", {"delta": part.get("text", "")}
            yield "response.reasoning_text.done", {"text": part.get("text", "")}


def _summary_told(part: dict[str, Any]) -> Iterator[_Told]:
    text = part.get("text", "")
    yield "response.reasoning_summary_part.added", {"part": {**part, "text": ""}}
    yield "response.reasoning_summary_text.delta", {"delta": text}
    yield "response.reasoning_summary_text.done", {"text": text}
    yield "response.reasoning_summary_part.done", {"part": part}
