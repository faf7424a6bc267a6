"""Responses: `POST /v1/responses`, as far as a reply needs nothing that the server keeps.

Requests that store or refer to something at the server bypass the cache; a reply that says it was stored is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..answers import NotAnAnswer, Reading
from ..body import Json
from ..errors import ApiError, InvalidRequest
from .dialect import Asked, Dialect, Fresh, Manner
from .response_events import events_of, named
from .response_stream import ResponseReader, reading_of
from .turns import Turn, asked_in

# Members of the request that the reply repeats although they are no part of the question.
_ECHOED = ("metadata", "user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention")


def _ask(values: Mapping[str, Json]) -> Asked:
    given = values.get("input")
    items: list[Json] = [{"role": "user", "content": given}] if isinstance(given, str) else []
    if isinstance(given, list):
        items = given
    elif not isinstance(given, str | None):
        raise InvalidRequest("input must be a string or an array of objects.", param="input")
    turns: list[Turn] = []
    for at, item in enumerate(items):
        if not isinstance(item, dict):
            raise InvalidRequest("input must be a string or an array of objects.", param=f"input.{at}")
        # A message may say that it is one.
        turns.append({k: v for k, v in item.items() if (k, v) != ("type", "message")})
    asked = asked_in(turns)
    if values.get("prompt") is not None or any(turn.get("type") == "item_reference" for turn in turns):
        return Asked(
            asked.fuzzy, asked.rest, bypass="remote-content"
        )  # it lies at the server, and may change there
    return asked


def _read_json(body: bytes) -> Reading:
    try:
        return reading_of(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise NotAnAnswer(str(error)) from error


def _as_json(payload: bytes, fresh: Fresh) -> bytes:
    return msgspec.json.encode(_document(payload, fresh))


def _as_stream(payload: bytes, fresh: Fresh, manner: Manner) -> Iterator[bytes]:
    return events_of(_document(payload, fresh), manner)


def _document(payload: bytes, fresh: Fresh) -> dict[str, Any]:
    """The response with ids, times and echoes of its own."""
    stored: dict[str, Any] = msgspec.json.decode(b"{" + payload + b"}")
    document = {"id": f"resp_{fresh.id}", "object": "response", "created_at": fresh.created, **stored}
    own = {**fresh.echo, "completed_at": fresh.created}
    document |= {name: value for name, value in own.items() if name in stored}
    for at, item in enumerate(document.get("output") or ()):
        if isinstance(item.get("id"), str):
            item["id"] = f"{item['id'].partition('_')[0]}_{fresh.id}{at:02x}"
    return document


def _as_error(error: ApiError) -> bytes:
    """As OpenAI's event says it, and as the official SDKs take for an error in any stream."""
    told = msgspec.json.decode(error.body())
    return named(
        "error", {"type": "error", **{n: told["error"][n] for n in ("code", "message", "param")}, **told}
    )


def _reader(model: str | None) -> ResponseReader:
    return ResponseReader(model=model)


RESPONSES = Dialect(
    endpoint="responses",
    path="/v1/responses",
    operation="chat",
    question="input",
    ask=_ask,
    read_json=_read_json,
    reader=_reader,
    as_json=_as_json,
    as_stream=_as_stream,
    as_error=_as_error,
    has_usage_option=False,
    ending=(),
    echoed=_ECHOED,
    output_limit="max_output_tokens",
)
