"""Carries a model server's reply into a flight, and out of it to each caller in the form that caller asked for.

in:  JSON or stream as the leader asked   → head, frames, outcome
out: JSON or stream as each caller asked  ← head, frames, outcome
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from backends import DONE, Event, Exchange

from .answers import Frame, NotAnAnswer, Reading, StreamBroken, StreamReader
from .call import Call
from .data.wire import Reply
from .dialects import Dialect
from .errors import NO_RETRY, ApiError, UpstreamError
from .flight import Flight, Flights, Seat
from .replies.model_name import renamed
from .replies.surrogates import mend
from .replies.upstream_errors import normalise
from .telemetry.timeline import Link
from .telling import tell

# No answer of a language model is larger; what is, is a fault of the server or an attack through it.
ANSWER_LIMIT_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class Head:
    """The first that is known of a reply. A refusal (4xx) is an answer too, and the same for all who share it.

    `span` names the client span of the call, for those who share it to link to. `is_elsewhere`: another process called.
    """

    backend: str
    span: Link
    is_stream: bool = False
    refusal: ApiError | None = None
    is_elsewhere: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """A whole reply; `body` is the server's own JSON, byte for byte but for the model's name, where it sent JSON."""

    reading: Reading
    body: bytes | None = None


AnswerFlight = Flight[Head, Frame, Outcome]
AnswerFlights = Flights[Head, Frame, Outcome]
AnswerSeat = Seat[Head, Frame, Outcome]


async def relay_in(exchange: Exchange, flight: AnswerFlight, call: Call, *, span: Link) -> Outcome | None:
    """Read the exchange to its end into the flight. None: it was refused.

    Where a pool maps the public name of a model to another, callers read the public one, as they will on a hit.
    Raises ApiError where the reply is no answer: the flight then fails, before or after its first byte.
    """
    model = mapped_back(exchange, call.wish.model)
    if exchange.status != 200:
        error = normalise(
            exchange.status,
            await exchange.read(1 << 20),
            retry_after=exchange.headers.get("retry-after"),
        )
        if error.status >= 500:
            raise error
        flight.begin(Head(exchange.member, span, refusal=error))
        return None
    if exchange.is_stream:
        flight.begin(Head(exchange.member, span, is_stream=True))
        return Outcome(await _relay_stream(exchange, flight, call.dialect, model))
    body = mend(await exchange.read(ANSWER_LIMIT_BYTES))
    try:
        body = renamed(body, model)
        outcome = Outcome(call.dialect.read_json(body), body)
    except (NotAnAnswer, msgspec.DecodeError) as error:
        exchange.reject("not-an-answer")
        raise UpstreamError(
            f"The model server's reply is not one to {call.dialect.path}.", headers=NO_RETRY
        ) from error
    flight.begin(Head(exchange.member, span))
    return outcome


def mapped_back(exchange: Exchange, model: str) -> str | None:
    """The public name, where the pool maps it to another."""
    return None if exchange.upstream_model == model else model


async def _relay_stream(
    exchange: Exchange, flight: AnswerFlight, dialect: Dialect, model: str | None
) -> Reading:
    reader, total = dialect.reader(model), 0
    async for events in exchange.batches():
        frames, is_done, failure = _take(reader, events)
        size = sum([len(frame.data) for frame in frames])
        total += size
        if total > ANSWER_LIMIT_BYTES:
            raise UpstreamError("The model server's answer is too large.", headers=NO_RETRY)
        flight.push(frames, size)
        if failure is not None:
            exchange.reject(failure.code)
            raise failure
        if is_done:
            break
        if reader.is_complete and not dialect.ending:  # nobody waits for a connection that may hang on
            exchange.accept()
            break
    if not reader.is_complete:
        # [DONE] alone proves nothing: vLLM sends it after an error, too.
        exchange.reject("incomplete_stream")
        raise UpstreamError("The model server ended the stream without saying why.", code="incomplete_stream")
    owed = reader.owed()
    if owed:
        flight.push(owed, sum(len(frame.data) for frame in owed))
    return reader.finish()


def _take(reader: StreamReader, events: list[Event]) -> tuple[list[Frame], bool, ApiError | None]:
    """What can be passed on of them, whether they were the last, and what went wrong after that."""
    frames: list[Frame] = []
    for event in events:
        if event.data == DONE:
            return frames, True, None
        try:
            frames.append(reader.take(event.data))
        except StreamBroken as error:
            if error.body:
                return frames, False, normalise(502, error.body)
            words = "The model server sent a chunk that cannot be read."
            return frames, False, UpstreamError(words, code="invalid_chunk")
    return frames, False, None


async def relay_out(head: Head, seat: AnswerSeat, reply: Reply, call: Call) -> Reading:
    """Send what the flight brings, as it comes. Raises what the flight failed with, ClientLeft or TooSlow."""
    reply.add("x-echogate-backend", head.backend)
    if head.refusal is not None:
        raise head.refusal
    if call.wish.wants_stream and head.is_stream:
        return await _stream_out(seat, reply, call)
    outcome = await seat.result()
    if outcome.body is not None and not call.wish.wants_stream:
        await reply.whole(200, outcome.body)
    else:
        await tell(outcome.reading.payload, call, reply)
    return outcome.reading


async def _stream_out(seat: AnswerSeat, reply: Reply, call: Call) -> Reading:
    await reply.start_stream()
    async for frames in seat.batches():
        if call.wish.include_usage:
            await reply.events([_with_usage(frame, call) for frame in frames])
        else:
            await reply.events([frame.without_usage for frame in frames if frame.without_usage is not None])
    outcome = await seat.result()
    await reply.end(call.dialect.ending)
    return outcome.reading


def _with_usage(frame: Frame, call: Call) -> bytes:
    """Usage comes once, at the end, in a chunk of its own, but for those who asked for it all the way."""
    if call.wish.wants_running_usage or frame.without_usage is None:
        return frame.data
    return frame.without_usage
