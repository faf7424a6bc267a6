"""Asks a backend for what the cache does not have, and keeps the answer: the producer's side of a flight.

Whoever starts a flight lends it its call, its ticket and its timeline. The flight may outlive that request: what
it led to still goes into that request's trace.
"""

from __future__ import annotations

import time

import structlog
from msgspec.structs import replace

from backends import Pools, UpstreamRequest
from cache import LITERAL, Answer, Claims, SemanticCache, Ticket

from . import notes
from .answers import Reading
from .call import Call
from .errors import place_of
from .relay import AnswerFlight, Head, Outcome, relay_in
from .sending import sent
from .telemetry import spans
from .telemetry.telemetry import Telemetry
from .telemetry.timeline import Timeline

_log = structlog.get_logger("gateway.asking")

# Whoever wants an answer word by word must not wait long for another's to be whole: a call of its own begins sooner.
_STREAM_PATIENCE_S = 1.0


class Asking:
    def __init__(self, *, pools: Pools, cache: SemanticCache, claims: Claims, telemetry: Telemetry) -> None:
        self._pools = pools
        self._cache = cache
        self._claims = claims
        self._telemetry = telemetry

    async def produce(
        self, call: Call, ticket: Ticket | None, timeline: Timeline, flight: AnswerFlight
    ) -> None:
        """Fill the flight from the least loaded backend, or with what another process is being told just now; store
        the answer if there is a ticket. Raises ApiError."""
        if ticket is None or not call.controls.reads:
            await self._fill(call, ticket, timeline, flight)
            return
        started = time.monotonic()
        claimed = await self._claims.claim(ticket, until=_patience(call, started))
        if claimed.has_waited:
            spans.note_wait(timeline, started, time.monotonic(), is_served=claimed.entry is not None)
        if claimed.entry is not None:
            _pass_on(claimed.entry.answer, flight)
            return
        async with self._claims.held(ticket, claimed.token):
            await self._fill(call, replace(ticket, claim=claimed.token), timeline, flight)

    async def _fill(
        self, call: Call, ticket: Ticket | None, timeline: Timeline, flight: AnswerFlight
    ) -> None:
        reading = await self._ask_backend(call, flight, timeline)
        if reading is None or ticket is None:
            return
        try:
            await self._keep(reading, call, ticket, timeline)
        except Exception as error:  # the callers have their answer; a fault of ours is a log line
            _log.error(
                "unexpected",
                error=type(error).__name__,
                request_id=timeline.request_id,
                where=place_of(error),
            )

    async def _ask_backend(self, call: Call, flight: AnswerFlight, timeline: Timeline) -> Reading | None:
        """The reply, read into the flight; None where it was a refusal. Raises ApiError."""
        upstream = notes.UpstreamSpans(timeline, operation=call.dialect.operation)
        request = UpstreamRequest(
            path=call.dialect.path,
            body=call.upstream_body,
            headers=upstream.headers,
            is_stream=call.wish.wants_stream,
            needs=call.route.needs,
            affinity=call.route.affinity,
        )
        outcome: Outcome | None = None
        try:
            async with sent(
                self._pools,
                call.version,
                request,
                deadline_s=call.route.deadline_s,
                upstream=upstream,
                timeline=timeline,
                reading=lambda: outcome.reading if outcome else None,
            ) as exchange:
                span = upstream.link(exchange.attempts[-1])
                outcome = await relay_in(exchange, flight, call, span=span)
        finally:
            self._emit_if_late(timeline)
        if outcome is None:
            return None
        flight.finish(outcome)
        return outcome.reading

    async def _keep(self, reading: Reading, call: Call, ticket: Ticket, timeline: Timeline) -> None:
        started = time.monotonic()
        reason = call.why_not_kept(reading)
        if reason is not None:
            spans.note_store(timeline, started, started, is_stored=False, reason=reason)
            return
        origin = notes.origin(timeline, reading)
        if call.keeping[reading.kind] == "exact":
            question = replace(ticket.question, skip_semantic=reading.kind)
            ticket = replace(ticket, question=question, vector=None, canonical_id=None)
            origin = {**origin, **LITERAL}
        tags = self._cache.tags(notes.tags(call.version, call.body.values, timeline))
        answer = Answer(reading.text, reading.payload, origin, tags)
        stored = await self._cache.store(ticket, answer, ttl_s=call.controls.ttl_s)
        ended = time.monotonic()
        spans.note_store(timeline, started, ended, is_stored=stored.is_stored, reason=stored.reason)
        self._emit_if_late(timeline)

    def _emit_if_late(self, timeline: Timeline) -> None:
        """The caller who started a shared call may be gone by now; what it led to still belongs into its trace."""
        if timeline.is_recorded:
            self._telemetry.emit_late(timeline)


def _patience(call: Call, started: float) -> float:
    """Until when to wait for what another process is asking."""
    if call.wish.wants_stream:
        return started + _STREAM_PATIENCE_S
    return call.route.deadline_s


def _pass_on(answer: Answer, flight: AnswerFlight) -> None:
    """As if it had come from a server: the whole of it at once."""
    made = answer.origin
    link = (made.get("trace_id", ""), made.get("span_id", ""))
    flight.begin(Head(made.get("backend", ""), link, is_elsewhere=True))
    flight.finish(Outcome(Reading(answer.payload, answer.text, None, "text", None)))
