"""Endpoints of model servers that the gateway only hands on: authenticated, limited, balanced, traced, never cached.

A reply passes as it comes, byte for byte but for the model's name: JSON whole, events one by one, anything else (audio)
whole as well. Errors become OpenAI's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from backends import Event, Exchange, encode

from .. import notes
from ..errors import NO_RETRY, ApiError, UpstreamError
from ..passage import Entrant, Passage
from ..relay import ANSWER_LIMIT_BYTES, mapped_back
from ..replies.model_name import renamed
from ..replies.surrogates import mend
from ..replies.upstream_errors import normalise
from ..telemetry.timeline import Timeline
from .endpoints import Endpoint
from .wire import Reply, Request


class PassThrough:
    def __init__(self, passage: Passage) -> None:
        self._passage = passage

    async def answer(
        self, endpoint: Endpoint, request: Request, reply: Reply, timeline: Timeline, *, deadline_s: float
    ) -> None:
        """Raises ApiError."""
        reply.as_error_frame = _error_event
        headers = {"accept": "*/*"}
        if endpoint.is_form:
            headers["content-type"] = request.headers.get(b"content-type", b"").decode("latin-1")
        async with self._passage.admitted(
            request,
            reply,
            timeline,
            scope=endpoint.scope,
            deadline_s=deadline_s,
            generates=endpoint.generates,
            is_form=endpoint.is_form,
        ) as entrant:
            notes.outcome(timeline, reply, "BYPASS", "endpoint")
            async with self._passage.sent(
                entrant,
                timeline,
                path=endpoint.path,
                operation=endpoint.operation,
                body=entrant.body_for,
                headers=headers,
            ) as exchange:
                await _relay(exchange, entrant, reply, timeline)


async def _relay(exchange: Exchange, entrant: Entrant, reply: Reply, timeline: Timeline) -> None:
    reply.add("x-echogate-backend", exchange.member)
    if exchange.status != 200:
        raise normalise(
            exchange.status, await exchange.read(1 << 20), retry_after=exchange.headers.get("retry-after")
        )
    model = mapped_back(exchange, entrant.model)
    if exchange.is_stream:
        await _relay_events(exchange, model, reply, timeline)
        return
    body = await exchange.read(ANSWER_LIMIT_BYTES)
    if exchange.content_type == "application/json":
        body = _readable(body, model)
        note_usage(timeline, body)
    await reply.whole(200, body, content_type=exchange.headers.get("content-type", "").encode("latin-1"))


async def _relay_events(exchange: Exchange, model: str | None, reply: Reply, timeline: Timeline) -> None:
    await reply.start_stream()
    total, last = 0, None
    async for events in exchange.batches():
        total += sum(len(event.data) for event in events)
        last = events[-1].event
        if total > ANSWER_LIMIT_BYTES:
            raise UpstreamError("The model server's answer is too large.", headers=NO_RETRY)
        await reply.events([_frame(event, model, timeline) for event in events])
    if last is not None and last.startswith(("message", "content_block")) and last != "message_stop":
        raise UpstreamError("The model server ended the stream without saying why.", code="incomplete_stream")
    await reply.end()


def _frame(event: Event, model: str | None, timeline: Timeline) -> bytes:
    data = event.data
    if b'"usage"' in data:
        note_usage(timeline, data)
    if model is not None and b'"model"' in data:
        data = _in_events(data, model)
    named = b"" if event.event is None else b"event: %s\n" % event.event.encode()
    return named + encode(data)


def _error_event(error: ApiError) -> bytes:
    """Named, as Anthropic's SDKs expect it; others read the data alone."""
    return b"event: error\n" + encode(error.body())


def _in_events(data: bytes, model: str) -> bytes:
    """The model's name at the top of an event, or in the message that it begins."""
    try:
        event = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return data
    for place in (event, event.get("message")) if isinstance(event, dict) else ():
        if isinstance(place, dict) and isinstance(place.get("model"), str):
            place["model"] = model
    return msgspec.json.encode(event)


def _readable(body: bytes, model: str | None) -> bytes:
    body = mend(body)
    try:
        return renamed(body, model)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return body  # a list or a number: there is no name to put in


class _Tokens(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None


class _Message(msgspec.Struct):
    usage: _Tokens | None = None


class _Counted(msgspec.Struct):
    usage: _Tokens | None = None
    message: _Message | None = None


_read_counted = msgspec.json.Decoder(_Counted).decode


def note_usage(timeline: Timeline, document: bytes) -> None:
    """What a reply, or an event of one, says of its tokens, in OpenAI's words or Anthropic's."""
    try:
        counted = _read_counted(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    usage: Any = counted.usage or (counted.message.usage if counted.message else None)
    if usage is None:
        return
    output = _first(usage.completion_tokens, usage.output_tokens)
    whole = None if usage.total_tokens is None else usage.total_tokens - (output or 0)
    read = _first(usage.prompt_tokens, usage.input_tokens, whole)
    timeline.input_tokens = max(timeline.input_tokens or 0, read or 0)
    timeline.output_tokens = max(timeline.output_tokens or 0, output or 0)


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
