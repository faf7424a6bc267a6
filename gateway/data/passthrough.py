"""Endpoints of model servers that the gateway only hands on: authenticated, limited, balanced, traced, never cached.

A reply passes as it comes, byte for byte but for the model's name: JSON whole, events one by one, anything else (audio)
whole as well. Errors become OpenAI's.
"""

from __future__ import annotations

import itertools
from typing import Any

import msgspec

from backends import Event, Exchange, encode

from .. import notes
from ..controls import read_controls
from ..errors import NO_RETRY, ApiError, UpstreamError, only_if_cached
from ..passage import Passage
from ..relay import ANSWER_LIMIT_BYTES, mapped_back
from ..replies.model_name import renamed
from ..replies.surrogates import mend
from ..replies.upstream_errors import normalise
from ..telemetry.timeline import Timeline
from .endpoints import Endpoint
from .wire import Reply, Request

_BYTES = "application/octet-stream"
_LAST = "message_stop"  # of Anthropic's events


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
            asked_of_us = entrant.body.values.get("cache")
            if read_controls(request.headers, asked_of_us, mode=entrant.principal.cache_mode).only_if_cached:
                raise only_if_cached()
            async with self._passage.sent(
                entrant,
                timeline,
                path=endpoint.path,
                operation=endpoint.operation,
                body=entrant.body_for,
                headers=headers,
            ) as exchange:
                reply.add("x-echogate-backend", exchange.member)
                if exchange.status != 200:
                    raise normalise(
                        exchange.status,
                        await exchange.read(1 << 20),
                        retry_after=exchange.headers.get("retry-after"),
                    )
                model = mapped_back(exchange, entrant.model)
                if exchange.is_stream:
                    await _relay_events(exchange, model, reply, timeline)
                    return
                body = await _whole(endpoint, exchange, model, timeline)
            # The server is free by now, however slowly its reply is read.
            type_ = exchange.headers.get("content-type", _BYTES)
            await reply.whole(200, body, content_type=type_.encode("latin-1"))


async def _whole(endpoint: Endpoint, exchange: Exchange, model: str | None, timeline: Timeline) -> bytes:
    """Raises UpstreamError where it is no reply to this."""
    body = await exchange.read(ANSWER_LIMIT_BYTES)
    type_ = exchange.content_type
    if type_ == "application/json":
        body = mend(body)
        try:
            if isinstance(_read_whole(body), dict):
                body = renamed(body, model)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _no_reply(endpoint, exchange) from error
        note_usage(timeline, body)
    elif type_ == "text/html" or not endpoint.is_sound:  # a proxy's page
        raise _no_reply(endpoint, exchange)
    return body


def _no_reply(endpoint: Endpoint, exchange: Exchange) -> UpstreamError:
    exchange.reject("not-an-answer")
    return UpstreamError(f"The model server's reply is not one to {endpoint.path}.", headers=NO_RETRY)


async def _relay_events(exchange: Exchange, model: str | None, reply: Reply, timeline: Timeline) -> None:
    await reply.start_stream()
    total, last = 0, None
    async for events in exchange.batches():
        total += sum(len(event.data) for event in events)
        if total > ANSWER_LIMIT_BYTES:
            raise UpstreamError("The model server's answer is too large.", headers=NO_RETRY)
        whole = list(itertools.takewhile(lambda event: not _is_error(event), events))
        await reply.events([_frame(event, model, timeline) for event in whole])
        if len(whole) < len(events):
            exchange.reject("error-chunk")
            raise normalise(502, events[len(whole)].data)
        last = events[-1].event
        if last == _LAST:  # nobody waits for a connection that may hang on
            exchange.accept()
            break
    if last is not None and last.startswith(("message", "content_block")) and last != _LAST:
        exchange.reject("incomplete_stream")
        raise UpstreamError("The model server ended the stream without saying why.", code="incomplete_stream")
    await reply.end()


def _is_error(event: Event) -> bool:
    """Of what went wrong at a server, no more is told in a stream than anywhere else."""
    if event.event == "error":
        return True
    if b'"error"' not in event.data:
        return False
    try:
        return bool(_read_failure(event.data).error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


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


class _Failure(msgspec.Struct):
    error: Any = None


_read_failure = msgspec.json.Decoder(_Failure).decode
_read_whole = msgspec.json.Decoder(dict[str, msgspec.Raw] | list[msgspec.Raw]).decode
_read_counted = msgspec.json.Decoder(_Counted).decode


def note_usage(timeline: Timeline, document: bytes) -> None:
    """What a reply, or an event of one, says of its tokens, in OpenAI's words or Anthropic's."""
    try:
        counted = _read_counted(document)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return
    usage = counted.usage
    if usage is None:
        began = counted.message and counted.message.usage
        if began:  # the answer of an event that begins one is still to come
            timeline.input_tokens = max(timeline.input_tokens or 0, _first(began.input_tokens) or 0)
        return
    output = _first(usage.completion_tokens, usage.output_tokens)
    whole = None if usage.total_tokens is None else usage.total_tokens - (output or 0)
    read = _first(usage.prompt_tokens, usage.input_tokens, whole)
    timeline.input_tokens = max(timeline.input_tokens or 0, read or 0)
    timeline.output_tokens = max(timeline.output_tokens or 0, output or 0)


def _first(*counts: int | None) -> int | None:
    return next((count for count in counts if count is not None), None)
