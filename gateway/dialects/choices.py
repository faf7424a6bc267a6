"""What chat completions and completions have in common: an answer is a list of choices, with usage beside it.

The members of replies are the server's own words, hence untyped here; what is not understood is passed on as it came.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from backends import encode

from ..answers import Frame, Kind, Reading, StreamBroken, Usage, kind_of
from ..replies.model_name import renamed
from ..replies.surrogates import mend
from .dialect import DONE, Fresh, Manner

# Made anew for each reply, so not part of what is kept.
_PER_REPLY = ("id", "object", "created")
_CONSTANT = ("model", "system_fingerprint", "service_tier")  # the same in each chunk
_WHOLE = ("stop", "tool_calls", "function_call")


class Told(msgspec.Struct, frozen=True):
    """What decides whether a choice is a whole answer, and what it may be kept for."""

    text: str
    finish: str | None
    kind: Kind = "text"
    is_empty: bool = False
    is_odd: bool = False  # no stream could carry it without loss


_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def payload_of(body: bytes) -> bytes:
    """A whole reply as it is kept: each member byte for byte."""
    return b",".join(
        b"%s:%s" % (msgspec.json.encode(name), bytes(raw))
        for name, raw in _read_members(body).items()
        if name not in _PER_REPLY
    )


def reading_of(payload: bytes, choices: list[Told], usage: Any) -> Reading:
    return Reading(
        payload=payload,
        text=choices[0].text if choices else "",
        usage=_usage(usage),
        kind=kind_of([choice.kind for choice in choices]),
        reason=_why_not(choices),
    )


def _why_not(choices: list[Told]) -> str | None:
    if not choices:
        return "no-choices"
    for choice in choices:
        if choice.finish not in _WHOLE:
            return f"finish-{(choice.finish or 'missing').replace('_', '-')}"
        if choice.is_empty:
            return "empty"
        if choice.is_odd:
            return "unknown-member"
    return None


def _usage(usage: Any) -> Usage | None:
    match usage:
        case {"prompt_tokens": int() as given, "completion_tokens": int() as made}:
            return Usage(given, made)
        case {"prompt_tokens": int() as given}:
            return Usage(given, 0)
        case {"completion_tokens": int() as made}:
            return Usage(0, made)
    return None


class Growing(ABC):
    """One choice of a stream, put together; a dialect adds how its content grows."""

    def __init__(self) -> None:
        self.finish: str | None = None
        self.is_odd = False
        self._logprobs: dict[str, list[Any]] = {}
        self._others: dict[str, Any] = {}

    def grow(self, choice: dict[str, Any]) -> None:
        """Raises what unreadable members lead to."""
        for name, value in choice.items():
            if value is None or name in ("index", "delta", "text", "logprobs"):
                continue
            if name == "finish_reason":
                self.finish = str(value)
            elif name == "token_ids" and isinstance(value, list):  # vLLM's, on request: those of this chunk
                self._others[name] = [*self._others.get(name, ()), *value]
            else:
                self._others[name] = value
        logprobs = choice.get("logprobs")
        if isinstance(logprobs, dict):
            self._grow_logprobs(logprobs)
        elif logprobs is not None:
            self.is_odd = True
        self.grow_content(choice)

    def _grow_logprobs(self, logprobs: dict[str, Any]) -> None:
        """Those of the tokens of one chunk, in as many lists as the dialect has."""
        for name, tokens in logprobs.items():
            if isinstance(tokens, list):
                self._logprobs.setdefault(name, []).extend(tokens)
            elif tokens is not None:
                self.is_odd = True

    @abstractmethod
    def grow_text(self, text: str) -> None: ...

    @abstractmethod
    def grow_content(self, choice: dict[str, Any]) -> None: ...

    @abstractmethod
    def content(self) -> dict[str, Any]: ...

    @abstractmethod
    def told(self) -> Told: ...

    def whole(self, index: int) -> dict[str, Any]:
        """The choice as a JSON reply has it."""
        return {
            "index": index,
            **self.content(),
            "logprobs": {name: tokens for name, tokens in self._logprobs.items() if tokens} or None,
            "finish_reason": self.finish,
            **self._others,
        }


class ChoicesReader:
    """A `StreamReader`. `read_plain` reads the most frequent shape of a chunk quickly: its choice and text."""

    def __init__(
        self,
        growing: type[Growing],
        read_plain: Callable[[bytes], tuple[int, str] | None],
        *,
        model: str | None,
    ) -> None:
        self._growing = growing
        self._read_plain = read_plain
        self._model = model
        self._choices: dict[int, Growing] = {}
        self._head: dict[str, Any] = {}
        self._usage: Any = None
        self._usage_head: dict[str, Any] = {}
        self._has_usage_chunk = False

    @property
    def is_complete(self) -> bool:
        """Has every choice seen so far said why it ended?"""
        return bool(self._choices) and all(choice.finish for choice in self._choices.values())

    def take(self, data: bytes) -> Frame:
        plain = self._read_plain(data)
        if plain is None:
            return self._take_any(data)
        self._choice(plain[0]).grow_text(plain[1])
        frame = encode(renamed(data, self._model))
        return Frame(frame, frame)

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
        if self._model is not None and "model" in chunk:
            data, chunk["model"] = renamed(data, self._model), self._model
        choices = chunk.get("choices")
        if choices:
            self._grow(choices)
        for name, value in chunk.items():
            if value is not None and name not in ("choices", "usage", "obfuscation", *_PER_REPLY):
                self._head[name] = value
        usage = chunk.get("usage")
        if usage is None:
            frame = encode(data)
            return Frame(frame, frame)
        self._usage = usage
        if not choices:
            self._has_usage_chunk = True
            return Frame(encode(data), None)
        # Some servers hang it on the last choice, or on every one; nobody must count it twice.
        self._usage_head = {name: chunk[name] for name in _PER_REPLY if name in chunk}
        del chunk["usage"]
        return Frame(encode(data), encode(msgspec.json.encode(chunk)))

    def owed(self) -> list[Frame]:
        """The chunk for those who asked for usage, where the server sent usage but not in one of its own."""
        if self._usage is None or self._has_usage_chunk:
            return []
        head = self._usage_head | {name: self._head[name] for name in _CONSTANT if name in self._head}
        return [Frame(encode(msgspec.json.encode({**head, "choices": [], "usage": self._usage})), None)]

    def finish(self) -> Reading:
        document = {
            "choices": [self._choices[index].whole(index) for index in sorted(self._choices)],
            **({"usage": self._usage} if self._usage is not None else {}),
            **self._head,
        }
        told = [self._choices[index].told() for index in sorted(self._choices)]
        return reading_of(msgspec.json.encode(document)[1:-1], told, self._usage)

    def _choice(self, index: int) -> Growing:
        growing = self._choices.get(index)
        if growing is None:
            growing = self._choices[index] = self._growing()
        return growing

    def _grow(self, choices: Any) -> None:
        try:
            for choice in choices:
                self._choice(int(choice["index"])).grow(choice)
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            raise StreamBroken("invalid-chunk") from error


def as_json(payload: bytes, head: dict[str, Any]) -> bytes:
    """The payload is not parsed: its members are as they were stored."""
    return msgspec.json.encode(head)[:-1] + b"," + payload + b"}"


def as_frames(
    payload: bytes,
    head: dict[str, Any],
    parts: Callable[[dict[str, Any], Manner], Iterator[dict[str, Any]]],
    manner: Manner,
) -> Iterator[bytes]:
    """The stored choices as chunks, each in the parts that the dialect makes of it, and `[DONE]`."""
    stored = msgspec.json.decode(b"{" + payload + b"}")
    head = head | {name: stored[name] for name in _CONSTANT if name in stored}
    others = {
        name: value
        for name, value in stored.items()
        if value is not None and name not in ("choices", "usage", *_CONSTANT)
    }
    usage = stored.get("usage") if manner.include_usage else None
    running = {"usage": usage} if usage is not None and manner.wants_running_usage else {}
    last = {**others, **running}
    for choice in stored["choices"]:
        index = choice.get("index", 0)
        for part in parts(choice, manner):
            extra = last if part["finish_reason"] is not None else running
            yield _chunk({**head, "choices": [{"index": index, **part}], **extra})
    if usage is not None:
        yield _chunk({**head, "choices": [], "usage": usage})
    yield DONE


def ending(choice: dict[str, Any], *content: str, logprobs: Any = None) -> dict[str, Any]:
    """The last part of a choice: why it ended, and what nothing else carries."""
    named = ("index", "logprobs", "finish_reason", *content)
    others = {name: value for name, value in choice.items() if name not in named}
    return {"logprobs": logprobs, "finish_reason": choice.get("finish_reason"), **others}


def _chunk(chunk: dict[str, Any]) -> bytes:
    return encode(msgspec.json.encode(chunk))


def head_of(fresh: Fresh, prefix: str, object_: str) -> dict[str, Any]:
    return {"id": prefix + fresh.id, "object": object_, "created": fresh.created}
