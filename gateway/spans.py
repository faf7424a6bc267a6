"""Decides what a request's spans are called and what they tell: one table, and facts made into notes.

The leaves return facts with their times; the functions here note them on a timeline. docs/telemetry.md is
made from the table (telemetry_docs.py), so a name that is not in it does not exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .timeline import AttributeValue, Timeline

if TYPE_CHECKING:
    from auth import Decision
    from backends import Attempt
    from cache import Hit, Miss

ATTRIBUTES: dict[str, str] = {
    "echogate.backend": "Name of the pool's member that was asked",
    "echogate.backend.attempt": "Number of the attempt, from 1",
    "echogate.backend.candidates": "Members as the choice saw them, `name=load score`, lowest is best",
    "echogate.backend.error": "Why the attempt failed, a machine word: connect, timeout, reset, status, …",
    "echogate.backend.first_byte_ms": "Time from sending the request to the first byte of the answer",
    "echogate.cache.accepted": "Whether the stored question was accepted as the same question",
    "echogate.cache.entry_id": "The entry, as in the header x-cache-id",
    "echogate.cache.outcome": "The header x-cache: HIT-EXACT, HIT-SEMANTIC, MISS, BYPASS or REFRESH",
    "echogate.cache.reason": "Why there was no hit, or which rule accepted or refused, a machine word",
    "echogate.cache.similarity": "Cosine of the question and the nearest stored one, -1 to 1",
    "echogate.cache.stored": "Whether the answer was stored",
    "echogate.cache.threshold": "Least similarity that would have been accepted",
    "echogate.cache.tier": "Which tier answered: exact or semantic",
    "echogate.client_request_id": "The caller's own X-Request-Id",
    "echogate.key_id": "Public id of the key; the secret is nowhere",
    "echogate.limit.allowed": "Whether the limiter let the request pass",
    "echogate.limit.local": "Whether this worker's share of the limit was used because the store was away",
    "echogate.limit.remaining": "Requests left in the bucket",
    "echogate.outcome": "ok, client_error, client_closed or error",
    "echogate.request_id": "The id of the request, as in the header x-echogate-request-id",
    "echogate.service": "Service of the key",
    "echogate.tenant": "Tenant of the key",
    "echogate.time_to_first_byte_ms": "Time from the request's arrival to the answer's first content",
    "echogate.trace.kept": "`tail`: not sampled, kept because the request failed or was slow",
    "error.type": "What failed, a machine word or an HTTP status",
    "gen_ai.operation.name": "chat",
    "gen_ai.provider.name": "vllm",
    "gen_ai.request.model": "The public model name on the server span, the backend's on the client span",
    "gen_ai.request.stream": "Whether the answer was asked for as a stream",
    "gen_ai.usage.input_tokens": "Tokens of the prompt, as the backend counted them",
    "gen_ai.usage.output_tokens": "Tokens of the answer, as the backend counted them",
    "http.request.method": "POST or GET",
    "http.response.status_code": "Status sent to the caller (499: it left); on client spans the backend's",
    "http.route": "The path of the endpoint",
    "url.path": "The path of the endpoint",
    "url.scheme": "http",
}


@dataclass(frozen=True, slots=True)
class SpanFact:
    """A row of the table: a span's name, its parent's, and when there is one."""

    name: str
    kind: str
    parent: str
    meaning: str
    attributes: tuple[str, ...]


SERVER_ATTRIBUTES = (
    "http.request.method",
    "http.route",
    "url.path",
    "url.scheme",
    "http.response.status_code",
    "error.type",
    "gen_ai.request.model",
    "gen_ai.request.stream",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "echogate.request_id",
    "echogate.client_request_id",
    "echogate.tenant",
    "echogate.service",
    "echogate.key_id",
    "echogate.outcome",
    "echogate.backend",
    "echogate.cache.outcome",
    "echogate.cache.reason",
    "echogate.cache.similarity",
    "echogate.cache.entry_id",
    "echogate.time_to_first_byte_ms",
    "echogate.trace.kept",
)

SPANS: tuple[SpanFact, ...] = (
    SpanFact("POST /v1/chat/completions", "SERVER", "the caller's", "The whole request", SERVER_ATTRIBUTES),
    SpanFact("auth.authenticate", "INTERNAL", "server", "Who asks", ("error.type",)),
    SpanFact(
        "auth.limit",
        "INTERNAL",
        "server",
        "May they now",
        ("echogate.limit.allowed", "echogate.limit.remaining", "echogate.limit.local", "error.type"),
    ),
    SpanFact(
        "cache.lookup",
        "INTERNAL",
        "server",
        "Has this been answered; on a hit linked to the trace that made the answer",
        (
            "echogate.cache.tier",
            "echogate.cache.reason",
            "echogate.cache.similarity",
            "echogate.cache.threshold",
            "echogate.cache.entry_id",
        ),
    ),
    SpanFact("cache.exact", "INTERNAL", "cache.lookup", "The look-up by digest", ()),
    SpanFact("cache.embed", "INTERNAL", "cache.lookup", "The embedding, its wait in the queue included", ()),
    SpanFact("cache.search", "INTERNAL", "cache.lookup", "The nearest stored questions", ()),
    SpanFact("cache.accept", "INTERNAL", "cache.lookup", "Are they the same question", ()),
    SpanFact(
        "backend.route",
        "INTERNAL",
        "server",
        "The choice of a member; one per attempt",
        ("echogate.backend", "echogate.backend.attempt", "echogate.backend.candidates"),
    ),
    SpanFact(
        "chat <model>",
        "CLIENT",
        "server",
        "The call to a backend; the parent of what the backend records. One per attempt",
        (
            "gen_ai.operation.name",
            "gen_ai.provider.name",
            "gen_ai.request.model",
            "gen_ai.request.stream",
            "gen_ai.usage.input_tokens",
            "gen_ai.usage.output_tokens",
            "http.response.status_code",
            "echogate.backend",
            "echogate.backend.attempt",
            "echogate.backend.first_byte_ms",
            "echogate.backend.error",
            "error.type",
        ),
    ),
    SpanFact(
        "cache.store",
        "INTERNAL",
        "server",
        "Storing the answer; may end after the request",
        ("echogate.cache.stored", "echogate.cache.reason"),
    ),
)


def server_attributes(timeline: Timeline) -> dict[str, AttributeValue]:
    """What the request's own span tells; facts that are not known are left out."""
    method, _, path = timeline.name.partition(" ")
    facts: dict[str, AttributeValue | None] = {
        "http.request.method": method,
        "http.route": path,
        "url.path": path,
        "url.scheme": "http",
        "http.response.status_code": timeline.status,
        "error.type": timeline.error_type or (str(timeline.status) if timeline.status >= 500 else None),
        "gen_ai.request.model": timeline.model,
        "gen_ai.request.stream": timeline.is_stream,
        "gen_ai.usage.input_tokens": timeline.input_tokens,
        "gen_ai.usage.output_tokens": timeline.output_tokens,
        "echogate.request_id": timeline.request_id,
        "echogate.client_request_id": timeline.client_request_id,
        "echogate.tenant": timeline.tenant,
        "echogate.service": timeline.service,
        "echogate.key_id": timeline.key_id,
        "echogate.outcome": timeline.outcome,
        "echogate.backend": timeline.backend,
        "echogate.cache.outcome": timeline.cache_outcome,
        "echogate.cache.reason": timeline.cache_reason,
        "echogate.cache.similarity": timeline.similarity,
        "echogate.cache.entry_id": timeline.entry_id,
        "echogate.time_to_first_byte_ms": _ms(timeline.started, timeline.first_byte_at),
        "echogate.trace.kept": "tail" if timeline.is_kept_by_tail else None,
    }
    return _known(facts)


def note_authentication(
    timeline: Timeline, started: float, ended: float, *, error: str | None = None
) -> None:
    timeline.note("auth.authenticate", started, ended, error=error)


def note_limit(timeline: Timeline, started: float, ended: float, decision: Decision) -> None:
    facts = {
        "echogate.limit.allowed": decision.is_allowed,
        "echogate.limit.remaining": decision.remaining,
        "echogate.limit.local": decision.is_local,
    }
    timeline.note("auth.limit", started, ended, facts, error=None if decision.is_allowed else "limited")


def note_lookup(timeline: Timeline, started: float, ended: float, outcome: Hit | Miss) -> None:
    """A look-up with its steps. A hit links to the trace that made the answer, where its origin tells it."""
    from cache import Hit  # here while the facade is younger than this file

    facts: dict[str, AttributeValue | None] = {"echogate.cache.similarity": outcome.similarity}
    links = []
    if isinstance(outcome, Hit):
        verdict = outcome.verdict
        facts["echogate.cache.tier"] = outcome.tier
        facts["echogate.cache.entry_id"] = f"{outcome.entry.entry_id:016x}"
        facts["echogate.cache.reason"] = verdict.reason if verdict else None
        facts["echogate.cache.threshold"] = verdict.threshold if verdict else None
        origin = outcome.entry.answer.origin
        if "trace_id" in origin and "span_id" in origin:
            links.append((origin["trace_id"], origin["span_id"]))
    else:
        facts["echogate.cache.reason"] = outcome.reason
    lookup = timeline.note("cache.lookup", started, ended, _known(facts), links=links)
    for step in outcome.steps:
        timeline.note(f"cache.{step.name}", step.started_s, step.ended_s, parent=lookup)


def note_attempt(
    timeline: Timeline,
    attempt: Attempt,
    *,
    span_id: int,
    upstream_model: str,
    ended: float,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    error: str | None = None,
) -> None:
    """The choice and the call of one attempt. `span_id` is the one its traceparent was made from.

    `ended` is used, and `error` said, where the attempt itself has not ended (a stream cut by the caller).
    """
    chosen: dict[str, AttributeValue] = {
        "echogate.backend": attempt.member,
        "echogate.backend.attempt": attempt.number,
        "echogate.backend.candidates": [f"{one.member}={one.score:g}" for one in attempt.candidates],
    }
    timeline.note("backend.route", attempt.started_s, attempt.started_s, chosen)
    facts: dict[str, AttributeValue | None] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "vllm",
        "gen_ai.request.model": upstream_model,
        "gen_ai.request.stream": timeline.is_stream,
        "gen_ai.usage.input_tokens": input_tokens,
        "gen_ai.usage.output_tokens": output_tokens,
        "http.response.status_code": attempt.status,
        "echogate.backend": attempt.member,
        "echogate.backend.attempt": attempt.number,
        "echogate.backend.first_byte_ms": _ms(attempt.started_s, attempt.first_byte_s),
        "echogate.backend.error": attempt.error,
    }
    timeline.note(
        f"chat {upstream_model}",
        attempt.started_s,
        attempt.ended_s if attempt.ended_s is not None else ended,
        _known(facts),
        span_id=span_id,
        kind="client",
        error=attempt.error or error,
    )


def note_store(timeline: Timeline, started: float, ended: float, *, is_stored: bool, reason: str) -> None:
    facts: dict[str, AttributeValue] = {"echogate.cache.stored": is_stored, "echogate.cache.reason": reason}
    timeline.note("cache.store", started, ended, facts)


def _ms(started: float, ended: float | None) -> float | None:
    return None if ended is None else round((ended - started) * 1e3, 3)


def _known(facts: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {name: value for name, value in facts.items() if value is not None}
