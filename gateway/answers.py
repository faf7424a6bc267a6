"""Reads a model server's reply, JSON or stream, into one stored form, and says whether it may be stored.

Only a complete, successful answer is worth keeping: every choice finished by itself, with something in it. The
stored payload is the completion's own members but for `id`, `object`, `created` and `model`, which are made anew for
every reply (see `render.py`); so one entry serves JSON and streams alike.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from .replies.plain_chunk import read_plain
from .replies.surrogates import mend

# Made anew for each reply, so not part of what is kept.
_PER_REPLY = ("id", "object", "created", "model")
# The parts of a delta that can be put together again without loss. Anything else: not stored.
_TEXTS = ("content", "refusal", "reasoning_content", "reasoning")


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply came to. `reason` says why it must not be stored (None: it may)."""

    payload: bytes
    text: str
    usage: Usage | None
    finish_reasons: tuple[str, ...]
    has_tool_calls: bool
    reason: str | None


class NotAnAnswer(ValueError):
    """A 200 whose body is not a completion at all: an HTML page, `null`, half a document."""


class _Choice(msgspec.Struct):
    message: dict[str, Any]
    finish_reason: str | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: _Usage | None = None


_read_completion = msgspec.json.Decoder(_Completion).decode
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def read_json(body: bytes) -> Reading:
    """Raises NotAnAnswer if the body is not a chat completion."""
    try:
        completion = _read_completion(body)
        members = _read_members(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnAnswer(str(error)) from error
    payload = b",".join(
        b"%s:%s" % (msgspec.json.encode(name), bytes(raw))
        for name, raw in members.items()
        if name not in _PER_REPLY
    )
    contents = [_Content.of(choice) for choice in completion.choices]
    return _reading(payload, contents, _usage(completion.usage))


@dataclass(slots=True)
class _Content:
    """What decides whether a choice is a whole answer, and one that a stream can carry without loss."""

    text: str
    has_calls: bool
    finish: str | None
    is_odd: bool = False

    @classmethod
    def of(cls, choice: _Choice) -> _Content:
        message = choice.message
        text = message.get("content")
        known = ("role", "tool_calls", *_TEXTS)
        is_odd = any(value for name, value in message.items() if name not in known)
        is_odd = is_odd or not isinstance(text, str | None)
        return cls(
            text if isinstance(text, str) else "",
            bool(message.get("tool_calls")),
            choice.finish_reason,
            is_odd,
        )


def _reading(payload: bytes, choices: list[_Content], usage: Usage | None) -> Reading:
    return Reading(
        payload=payload,
        text=choices[0].text if choices else "",
        usage=usage,
        finish_reasons=tuple(choice.finish or "" for choice in choices),
        has_tool_calls=any(choice.has_calls for choice in choices),
        reason=_why_not(choices),
    )


def _why_not(choices: list[_Content]) -> str | None:
    if not choices:
        return "no-choices"
    for choice in choices:
        if choice.finish not in ("stop", "tool_calls"):
            return f"finish-{(choice.finish or 'missing').replace('_', '-')}"
        if not choice.text and not choice.has_calls:
            return "empty"
        if choice.is_odd:
            return "unknown-member"
    return None


def _usage(usage: _Usage | None) -> Usage | None:
    if usage is None or (usage.prompt_tokens is None and usage.completion_tokens is None):
        return None
    return Usage(usage.prompt_tokens or 0, usage.completion_tokens or 0)


class StreamBroken(ValueError):
    """A chunk that cannot be read, or an error in place of a chunk."""

    def __init__(self, reason: str, *, body: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.body = body


class Frame(NamedTuple):
    """One chunk on its way to the callers: its bytes, and what is left of it without usage (None: nothing)."""

    data: bytes
    without_usage: bytes | None


@dataclass(slots=True)
class _Growing:
    texts: dict[str, list[str]] = field(default_factory=dict)
    calls: dict[int, dict[str, Any]] = field(default_factory=dict)
    logprobs: dict[str, list[Any]] = field(default_factory=dict)
    others: dict[str, Any] = field(default_factory=dict)
    finish: str | None = None
    is_odd: bool = False


class StreamReader:
    """Puts a stream's chunks together again. `take` each chunk, then `finish`.

    The fields of a chunk are the upstream's own words, hence untyped here; what is not understood is passed on
    as it came, and keeps the answer from being stored.
    """

    def __init__(self) -> None:
        self._choices: dict[int, _Growing] = {}
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._usage_head: dict[str, Any] = {}
        self._has_usage_chunk = False

    @property
    def is_complete(self) -> bool:
        """Has every choice seen so far said why it ended?"""
        return bool(self._choices) and all(choice.finish for choice in self._choices.values())

    def take(self, data: bytes) -> Frame:
        """Raises StreamBroken for an error chunk or something that is no chunk."""
        plain = read_plain(data)
        if plain is None:
            return self._take_any(data)
        growing = self._choices.get(plain.choice) or self._choices.setdefault(plain.choice, _Growing())
        growing.texts.setdefault("content", []).append(plain.content)
        return Frame(data, data)

    def _take_any(self, data: bytes) -> Frame:
        data = mend(data)
        try:
            chunk = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise StreamBroken("invalid-chunk") from error
        if not isinstance(chunk, dict):
            raise StreamBroken("invalid-chunk")
        if chunk.get("error"):
            raise StreamBroken("error-chunk", body=data)
        choices = chunk.get("choices")
        if choices:
            self._grow(choices)
        usage = chunk.get("usage")
        for name in ("system_fingerprint", "service_tier"):
            if chunk.get(name) is not None:
                self._head[name] = chunk[name]
        if usage is None:
            return Frame(data, data)
        self._usage = usage
        if not choices:
            self._has_usage_chunk = True
            return Frame(data, None)
        # Some servers hang it on the last choice, or on every one; nobody must count it twice.
        self._usage_head = {name: chunk[name] for name in _PER_REPLY if name in chunk}
        del chunk["usage"]
        return Frame(data, msgspec.json.encode(chunk))

    def usage_chunk(self) -> Frame | None:
        """The chunk a caller who asked for usage is owed, where the server sent usage but not in one of its own."""
        if self._usage is None or self._has_usage_chunk:
            return None
        chunk = {**self._usage_head, **self._head, "choices": [], "usage": self._usage}
        return Frame(msgspec.json.encode(chunk), None)

    def finish(self) -> Reading:
        grown = [self._choices[index] for index in sorted(self._choices)]
        document = {
            "choices": [_whole_choice(index, self._choices[index]) for index in sorted(self._choices)],
            **({"usage": self._usage} if self._usage is not None else {}),
            **self._head,
        }
        contents = [
            _Content("".join(c.texts.get("content", ())), bool(c.calls), c.finish, c.is_odd) for c in grown
        ]
        return _reading(msgspec.json.encode(document)[1:-1], contents, self._read_usage())

    def _read_usage(self) -> Usage | None:
        try:
            return _usage(msgspec.convert(self._usage, _Usage)) if self._usage is not None else None
        except msgspec.ValidationError:
            return None

    def _grow(self, choices: Any) -> None:
        try:
            for choice in choices:
                growing = self._choices.setdefault(int(choice["index"]), _Growing())
                for name, value in choice.items():
                    if value is None or name in ("index", "delta", "logprobs"):
                        continue
                    if name == "finish_reason":
                        growing.finish = str(value)
                    else:
                        growing.others[name] = value
                self._grow_delta(growing, choice.get("delta") or {})
                for name, tokens in (choice.get("logprobs") or {}).items():
                    if tokens:
                        growing.logprobs.setdefault(name, []).extend(tokens)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise StreamBroken("invalid-chunk") from error

    def _grow_delta(self, growing: _Growing, delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if value is None or name == "role":
                continue
            if name in _TEXTS:
                growing.texts.setdefault(name, []).append(value)
            elif name == "tool_calls":
                for part in value:
                    _grow_call(growing.calls.setdefault(int(part["index"]), {}), part)
            elif value not in ("", [], {}):
                growing.is_odd = True


def _grow_call(call: dict[str, Any], part: dict[str, Any]) -> None:
    """Fragments after the first carry neither id nor name: they are joined by index."""
    for name in ("id", "type"):
        if part.get(name):
            call[name] = part[name]
    fragment = part.get("function") or {}
    function = call.setdefault("function", {"name": "", "arguments": ""})
    function["name"] = function["name"] or fragment.get("name") or ""
    function["arguments"] += fragment.get("arguments") or ""


def _whole_choice(index: int, choice: _Growing) -> dict[str, Any]:
    content = "".join(choice.texts["content"]) if "content" in choice.texts else None
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not choice.calls else None,
    }
    message |= {name: "".join(parts) for name, parts in choice.texts.items() if name != "content"}
    if choice.calls:
        message["tool_calls"] = [{"type": "function", **choice.calls[at]} for at in sorted(choice.calls)]
    return {
        "index": index,
        "message": message,
        "logprobs": dict(choice.logprobs) or None,
        "finish_reason": choice.finish,
        **choice.others,
    }
