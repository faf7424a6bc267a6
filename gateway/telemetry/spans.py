"""Notes on a timeline what the leaves return as facts: this is where facts get their span and attribute names.

All names are in telemetry/span_table.py, which docs/telemetry.md is made from.
"""

from __future__ import annotations

from collections.abc import Mapping

from auth import Grant, Refusal
from backends import Attempt
from cache import Hit, Miss

from .timeline import AttributeValue, Timeline

# What the steps of a look-up tell, by the cache's words; what is not listed is not told.
_STEP_FACTS = {
    "is_hit": "echogate.cache.hit",
    "neighbours": "echogate.cache.neighbours",
    "cluster": "echogate.cache.cluster",
    "candidates": "echogate.cache.candidates",
    "threshold": "echogate.cache.threshold",
    "reason": "echogate.cache.reason",
}


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


def note_limit(timeline: Timeline, started: float, ended: float, answer: Grant | Refusal) -> None:
    is_refused = isinstance(answer, Refusal)
    facts: dict[str, AttributeValue | None] = {
        "echogate.limit.allowed": not is_refused,
        "echogate.limit.remaining": answer.requests.remaining if answer.requests else None,
        "echogate.limit.local": answer.is_local,
        "echogate.limit.name": answer.limit if isinstance(answer, Refusal) else None,
    }
    timeline.note("auth.limit", started, ended, _known(facts), error="limited" if is_refused else None)


def note_lookup(timeline: Timeline, started: float, ended: float, outcome: Hit | Miss) -> None:
    """A look-up with its steps. A hit links to the trace that made the answer, where its origin tells it."""
    facts: dict[str, AttributeValue | None] = {"echogate.cache.similarity": outcome.similarity}
    links = []
    if isinstance(outcome, Hit):
        verdict = outcome.verdict
        facts["echogate.cache.tier"] = outcome.tier
        facts["echogate.cache.entry_id"] = f"{outcome.entry.entry_id:016x}"
        facts["echogate.cache.reason"] = outcome.reason
        facts["echogate.cache.threshold"] = verdict.threshold if verdict else None
        origin = outcome.entry.answer.origin
        if "trace_id" in origin and "span_id" in origin:
            links.append((origin["trace_id"], origin["span_id"]))
    else:
        facts["echogate.cache.reason"] = outcome.reason
    lookup = timeline.note("cache.lookup", started, ended, _known(facts), links=links)
    for step in outcome.steps:
        told = {_STEP_FACTS[name]: value for name, value in step.facts.items() if name in _STEP_FACTS}
        error = step.facts.get("error")
        timeline.note(
            f"cache.{step.name}",
            step.started_s,
            step.ended_s,
            told,
            parent=lookup,
            error=str(error) if error is not None else None,
        )


def note_attempt(
    timeline: Timeline,
    attempt: Attempt,
    *,
    span_id: int,
    operation: str,
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
        "gen_ai.operation.name": operation,
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
        f"{operation} {upstream_model}",
        attempt.started_s,
        attempt.ended_s if attempt.ended_s is not None else ended,
        _known(facts),
        span_id=span_id,
        kind="client",
        error=attempt.error or error,
    )


def note_batch(timeline: Timeline, started: float, ended: float, *, inputs: int, hits: int) -> None:
    """The look-up of several at once."""
    facts: dict[str, AttributeValue] = {"echogate.cache.inputs": inputs, "echogate.cache.hits": hits}
    timeline.note("cache.lookup", started, ended, facts)


def note_wait(timeline: Timeline, started: float, ended: float, *, is_served: bool) -> None:
    timeline.note("cache.wait", started, ended, {"echogate.cache.hit": is_served})


def note_store(timeline: Timeline, started: float, ended: float, *, is_stored: bool, reason: str) -> None:
    facts: dict[str, AttributeValue] = {"echogate.cache.stored": is_stored, "echogate.cache.reason": reason}
    timeline.note("cache.store", started, ended, facts)


def _ms(started: float, ended: float | None) -> float | None:
    return None if ended is None else round((ended - started) * 1e3, 3)


def _known(facts: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {name: value for name, value in facts.items() if value is not None}
