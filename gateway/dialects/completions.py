"""Completions of a plain prompt: `POST /v1/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec.structs import replace

from ..answers import NotAnAnswer, Reading
from ..body import Json
from ..errors import InvalidRequest
from ..replies.plain_chunk import read_plain_text
from . import choices
from .choices import ChoicesReader, Growing, Told, payload_of, reading_of
from .dialect import Asked, Dialect, Fresh, Fuzzy, Manner

_PREFIX, _OBJECT = "cmpl-", "text_completion"


def _ask(values: Mapping[str, Json]) -> Asked:
    """One text is a question; several, or tokens, are matched as they are."""
    prompt = values.get("prompt")
    if not isinstance(prompt, str):
        if not isinstance(prompt, list | None):
            raise InvalidRequest("prompt must be a string or an array.", param="prompt")
        return Asked(Fuzzy("", None, "prompt-not-text"), prompt)
    if values.get("suffix") is not None:
        return Asked(Fuzzy(prompt, "prompt", "suffix"), None)
    return Asked(Fuzzy(prompt, "prompt", None if prompt.strip() else "no-text"), None)


class _Choice(msgspec.Struct):
    text: str
    finish_reason: str | None = None


class _Completion(msgspec.Struct):
    choices: list[_Choice]
    usage: Any = None


_read_completion = msgspec.json.Decoder(_Completion).decode


def _read_json(body: bytes) -> Reading:
    try:
        completion = _read_completion(body)
        payload = payload_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnAnswer(str(error)) from error
    told = [_told(choice.text, choice.finish_reason) for choice in completion.choices]
    return reading_of(payload, told, completion.usage)


def _told(text: str, finish: str | None) -> Told:
    return Told(text=text, finish=finish, is_empty=not text)


class _Text(Growing):
    def __init__(self) -> None:
        super().__init__()
        self._parts: list[str] = []

    def grow_text(self, text: str) -> None:
        self._parts.append(text)

    def grow_content(self, choice: dict[str, Any]) -> None:
        text = choice.get("text")
        if isinstance(text, str):
            self._parts.append(text)
        elif text is not None:
            self.is_odd = True

    def content(self) -> dict[str, Any]:
        return {"text": "".join(self._parts)}

    def told(self) -> Told:
        return replace(_told("".join(self._parts), self.finish), is_odd=self.is_odd)


def _parts_of(choice: dict[str, Any], manner: Manner) -> Iterator[dict[str, Any]]:
    text, logprobs = choice["text"], choice.get("logprobs")
    for piece in (text,) if logprobs else manner.pieces(text):
        yield {"text": piece, "logprobs": logprobs, "finish_reason": None}
    yield {"text": "", **choices.ending(choice, "text")}


def _as_json(payload: bytes, fresh: Fresh) -> bytes:
    return choices.as_json(payload, choices.head_of(fresh, _PREFIX, _OBJECT))


def _as_stream(payload: bytes, fresh: Fresh, manner: Manner) -> Iterator[bytes]:
    return choices.as_frames(payload, choices.head_of(fresh, _PREFIX, _OBJECT), _parts_of, manner)


def _reader(model: str | None) -> ChoicesReader:
    return ChoicesReader(_Text, read_plain_text, model=model)


COMPLETIONS = Dialect(
    endpoint="completions",
    path="/v1/completions",
    operation="text_completion",
    question="prompt",
    ask=_ask,
    read_json=_read_json,
    reader=_reader,
    as_json=_as_json,
    as_stream=_as_stream,
)
