"""Chat completions: `POST /v1/chat/completions`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..answers import NotAnAnswer, Reading
from ..body import Json
from ..errors import InvalidRequest
from ..replies.plain_chunk import read_plain
from . import choices
from .chat_message import Message, parts_of, told_of
from .choices import ChoicesReader, payload_of, reading_of
from .dialect import Asked, Dialect, Fresh, Manner
from .turns import Turn, asked_in


def _ask(values: Mapping[str, Json]) -> Asked:
    messages = values.get("messages")
    turns: list[Turn] = []
    for at, message in enumerate(messages if isinstance(messages, list) else ("",)):
        if not isinstance(message, dict):
            where = f"messages.{at}" if isinstance(messages, list) else "messages"
            raise InvalidRequest("messages must be an array of objects.", param=where)
        turns.append(message)
    return asked_in(turns)


class _Choice(msgspec.Struct):
    message: dict[str, Any]
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
    told = [told_of(choice.message, choice.finish_reason) for choice in completion.choices]
    return reading_of(payload, told, completion.usage)


_prefix = "chatcmpl-"


def _as_json(payload: bytes, fresh: Fresh) -> bytes:
    return choices.as_json(payload, choices.head_of(fresh, _prefix, "chat.completion"))


def _as_stream(payload: bytes, fresh: Fresh, manner: Manner) -> Iterator[bytes]:
    head = choices.head_of(fresh, _prefix, "chat.completion.chunk")
    return choices.as_frames(payload, head, parts_of, manner)


def _reader(model: str | None) -> ChoicesReader:
    return ChoicesReader(Message, read_plain, model=model)


CHAT = Dialect(
    endpoint="chat.completions",
    path="/v1/chat/completions",
    operation="chat",
    question="messages",
    ask=_ask,
    read_json=_read_json,
    reader=_reader,
    as_json=_as_json,
    as_stream=_as_stream,
)
