"""What a request tells of itself as it goes: to its caller in headers, to its trace in notes, from the same facts."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from auth import Grant, Refusal
from backends import Attempt, Version
from cache import Hit

from .answers import Reading
from .body import Json
from .data.wire import Reply
from .telemetry import spans
from .telemetry.timeline import Link, Timeline


def identify(timeline: Timeline, reply: Reply) -> None:
    """The ids that are on every reply, refusals included."""
    reply.add("x-request-id", timeline.client_request_id or timeline.request_id)
    reply.add("x-echogate-request-id", timeline.request_id)
    reply.add("x-trace-id", timeline.trace_id)


def limit(timeline: Timeline, reply: Reply, answer: Grant | Refusal, started: float, ended: float) -> None:
    """OpenAI's headers, for the tightest limit of each kind; tokens only where tokens are limited."""
    spans.note_limit(timeline, started, ended, answer)
    for kind, meter in (("requests", answer.requests), ("tokens", answer.tokens)):
        if meter is not None:
            reply.add(f"x-ratelimit-limit-{kind}", meter.limit)
            reply.add(f"x-ratelimit-remaining-{kind}", meter.remaining)
            reply.add(f"x-ratelimit-reset-{kind}", duration(meter.reset_s))


def duration(seconds: float) -> str:
    """OpenAI's form of a wait: `12ms`, `1s`, `6m0s`."""
    if seconds < 1:
        return f"{max(0, round(seconds * 1000))}ms"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"


def outcome(timeline: Timeline, reply: Reply, word: str, reason: str | None) -> None:
    """`x-cache` says what the cache did; the reason is for whoever wonders why."""
    timeline.cache_outcome, timeline.cache_reason = word, reason
    reply.add("x-cache", word)
    if reason is not None:
        reply.add("x-cache-reason", reason)


def shared(timeline: Timeline, reply: Reply) -> None:
    """The call turns out to be another's: what was noted as the reason gives way."""
    reply.headers = [
        (name, value) for name, value in reply.headers if name not in (b"x-cache", b"x-cache-reason")
    ]
    outcome(timeline, reply, "MISS", "shared")


def hit(timeline: Timeline, reply: Reply, found: Hit) -> None:
    outcome(timeline, reply, "HIT-EXACT" if found.is_exact else "HIT-SEMANTIC", found.reason)
    timeline.similarity, timeline.entry_id = found.similarity, f"{found.entry.entry_id:016x}"
    reply.add("x-cache-id", timeline.entry_id)
    reply.add("x-cache-similarity", f"{found.similarity:.4f}")
    reply.add("age", int(found.age_s))
    kept = found.entry.answer.origin
    if "input_tokens" in kept:
        timeline.input_tokens = int(kept["input_tokens"])
        timeline.output_tokens = int(kept["output_tokens"])


def answered(timeline: Timeline, reading: Reading) -> None:
    if reading.usage is not None:
        timeline.input_tokens = reading.usage.input_tokens
        timeline.output_tokens = reading.usage.output_tokens


def origin(timeline: Timeline, reading: Reading) -> Mapping[str, str]:
    """How an answer came about: ids and counts, kept with it for links and explanations."""
    return {**made(timeline), **tokens(reading)}


def made(timeline: Timeline) -> Mapping[str, str]:
    return {
        "request_id": timeline.request_id,
        "trace_id": timeline.trace_id,
        "span_id": f"{timeline.root_span_id:016x}",
        "backend": timeline.backend or "",
        "took_ms": str(round(1000 * timeline.duration_s)),
    }


def tags(version: Version, values: Mapping[str, Json], timeline: Timeline) -> Mapping[str, str]:
    """What an answer has to do with, so that all of a key's, a user's or a version's can be found and erased."""
    kept = {
        "tenant": timeline.tenant,
        "service": timeline.service,
        "key": timeline.key_id,
        "model": version.model,
        "version": f"{version.model}@{version.revision}",
        "request": timeline.request_id,
        "user": values.get("user"),
        "safety_identifier": values.get("safety_identifier"),
    }
    return {name: value for name, value in kept.items() if isinstance(value, str) and value}


def tokens(reading: Reading) -> Mapping[str, str]:
    """What an answer cost when it was made, where the server said so."""
    if reading.usage is None:
        return {}
    return {
        "input_tokens": str(reading.usage.input_tokens),
        "output_tokens": str(reading.usage.output_tokens),
    }


class UpstreamSpans:
    """The client spans of one upstream call: named before they exist, so that the model server can be their child."""

    def __init__(self, timeline: Timeline, *, operation: str) -> None:
        self._timeline = timeline
        self._operation = operation
        self._span_ids: dict[int, int] = {}

    def headers(self, attempt: int) -> Mapping[str, str]:
        """The headers of an attempt; asked for once, just before it is sent."""
        span_id = self._span_ids[attempt] = self._timeline.new_span_id()
        headers = {
            "traceparent": self._timeline.traceparent(span_id),
            "x-request-id": f"{self._timeline.request_id}-{attempt}",
        }
        if self._timeline.tracestate:
            headers["tracestate"] = self._timeline.tracestate
        return headers

    def link(self, attempt: Attempt) -> Link:
        return self._timeline.link_to(self._span_ids[attempt.number])

    def note(
        self, attempts: Sequence[Attempt], model: str, reading: Reading | None, *, error: str | None
    ) -> None:
        now = time.monotonic()
        usage = reading.usage if reading is not None else None
        for attempt in attempts:
            is_last = attempt is attempts[-1]
            spans.note_attempt(
                self._timeline,
                attempt,
                span_id=self._span_ids[attempt.number],
                operation=self._operation,
                upstream_model=model,
                ended=now,
                input_tokens=usage.input_tokens if usage and is_last else None,
                output_tokens=usage.output_tokens if usage and is_last else None,
                error=error if is_last else None,
            )
