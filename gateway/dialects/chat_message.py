"""The message of a chat completion: put together from the deltas of a stream, and taken apart into them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from ..answers import Kind
from .choices import Growing, Told, ending
from .dialect import Manner

_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")
_REASONING = ("reasoning_content", "reasoning")


def told_of(message: dict[str, Any], finish: str | None) -> Told:
    text, kind = message.get("content"), _kind_of(message)
    return Told(
        text=text if isinstance(text, str) else "",
        finish=finish,
        kind=kind,
        is_empty=not text and kind not in ("tool-calls", "refusal"),
        # What `audio` names is kept by the server, and not for long.
        is_odd=not isinstance(text, str | None) or bool(message.get("audio")) or not _are_calls(message),
    )


def _are_calls(message: dict[str, Any]) -> bool:
    calls = message.get("tool_calls")
    return calls is None or (isinstance(calls, list) and all(isinstance(call, dict) for call in calls))


def _kind_of(message: dict[str, Any]) -> Kind:
    if message.get("tool_calls") or message.get("function_call"):
        return "tool-calls"
    if message.get("refusal"):
        return "refusal"
    return "reasoning" if any(message.get(name) for name in _REASONING) else "text"


class Message(Growing):
    """Grows by deltas as the official SDK would let it grow; a tool call may also name itself in each fragment."""

    def __init__(self) -> None:
        super().__init__()
        self._texts: dict[str, list[str]] = {}
        self._calls: dict[int, dict[str, Any]] = {}
        self._members: dict[str, Any] = {}

    def grow_text(self, text: str) -> None:
        self._texts.setdefault("content", []).append(text)

    def grow_content(self, choice: dict[str, Any]) -> None:
        for name, value in (choice.get("delta") or {}).items():
            if value is None or name == "role":
                continue
            if name in _TEXTS and isinstance(value, str):
                self._texts.setdefault(name, []).append(value)
            elif name == "tool_calls":
                for part in value:
                    _grow_call(self._calls.setdefault(int(part["index"]), {}), part)
            else:
                self._members[name] = _joined(self._members.get(name), value)

    def content(self) -> dict[str, Any]:
        return {"message": self._message()}

    def told(self) -> Told:
        told = told_of(self._message(), self.finish)
        return replace(told, is_odd=told.is_odd or self.is_odd)

    def _message(self) -> dict[str, Any]:
        texts = {name: "".join(parts) for name, parts in self._texts.items()}
        message: dict[str, Any] = {"role": "assistant", "content": None, **texts, **self._members}
        if self._calls:
            message["tool_calls"] = [{"type": "function", **self._calls[at]} for at in sorted(self._calls)]
        if not message["content"] and _kind_of(message) in ("tool-calls", "refusal"):
            message["content"] = None  # as a JSON reply has it; a stream begins with an empty text
        return message


def _grow_call(call: dict[str, Any], part: dict[str, Any]) -> None:
    """Fragments after the first carry neither id nor name: they are joined by index."""
    for name, value in part.items():
        if name == "function" and value:
            function = call.setdefault("function", {"name": "", "arguments": ""})
            function["name"] = function["name"] or value.get("name") or ""
            function["arguments"] += value.get("arguments") or ""
        elif name == "custom" and value:
            call[name] = _joined(call.get(name), value)
        elif name != "index" and value:
            call[name] = value


def _joined(before: Any, more: Any) -> Any:
    """Texts grow, lists get longer, objects member by member; of all else the last one counts."""
    match before, more:
        case (None, _) | (_, None):
            return more if before is None else before
        case str(), str():
            return before + more
        case list(), list():
            return [*before, *more]
        case dict(), dict():
            return before | {name: _joined(before.get(name), value) for name, value in more.items()}
    return more


def parts_of(choice: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    """The deltas of a stored choice. Of the texts only the content is parted, and not from its log probabilities."""
    message, logprobs = choice["message"], choice.get("logprobs")
    content = message.get("content")
    yield _part({"role": message.get("role") or "assistant", "content": None if content is None else ""})
    for name, value in message.items():
        if name not in ("role", "content", "tool_calls") and value not in (None, "", [], {}):
            yield _part({name: value})
    if content:
        for piece in (content,) if logprobs else manner.pieces(content):
            yield _part({"content": piece}, logprobs)
    for at, call in enumerate(message.get("tool_calls") or ()):
        yield _part({"tool_calls": [{"index": at, **call}]})
    yield {"delta": {}, **ending(choice, "message", logprobs=None if content else logprobs)}


def _part(delta: dict[str, Any], logprobs: Any = None) -> dict[str, Any]:
    return {"delta": delta, "logprobs": logprobs, "finish_reason": None}
