"""Builds OpenTelemetry's spans from a timeline, with its ids and times, when the request is over."""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from ..version import VERSION
from .spans import server_attributes
from .timeline import Link as TraceLink
from .timeline import Timeline
from .tracecontext import RemoteParent

_UNSET = Status()
_KINDS = {"internal": SpanKind.INTERNAL, "client": SpanKind.CLIENT}
# Whatever is built here is kept, so the flag is set even where the sampler had said no (kept by tail).
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_NOT_SAMPLED = TraceFlags(TraceFlags.DEFAULT)


def remote_context(parent: RemoteParent) -> Context:
    """What a sampler must see to follow its parent's decision."""
    return set_span_in_context(NonRecordingSpan(_remote_span(parent)), Context())


class SpanBuilder:
    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._scope = InstrumentationScope("echogate", VERSION)

    def of_request(self, timeline: Timeline) -> ReadableSpan:
        """The server span of a request that is over."""
        has_failed = timeline.outcome == "error"
        return ReadableSpan(
            name=timeline.name,
            context=_own_span(timeline, timeline.root_span_id),
            parent=_remote_span(timeline.parent) if timeline.parent else None,
            resource=self._resource,
            attributes=server_attributes(timeline),
            links=_links(timeline.links),
            kind=SpanKind.SERVER,
            status=Status(StatusCode.ERROR, timeline.error_type) if has_failed else _UNSET,
            start_time=timeline.wall_ns(timeline.started),
            end_time=timeline.wall_ns(timeline.started + timeline.duration_s),
            instrumentation_scope=self._scope,
        )

    def of_notes(self, timeline: Timeline) -> list[ReadableSpan]:
        """The spans of what was noted so far. Takes the notes, so that each becomes a span once."""
        notes, timeline.notes = timeline.notes, []
        return [
            ReadableSpan(
                name=note.name,
                context=_own_span(timeline, note.span_id),
                parent=_own_span(timeline, note.parent_id),
                resource=self._resource,
                attributes={**note.attributes, "error.type": note.error} if note.error else note.attributes,
                links=_links(note.links),
                kind=_KINDS[note.kind],
                status=Status(StatusCode.ERROR, note.error) if note.error else _UNSET,
                start_time=timeline.wall_ns(note.started),
                end_time=timeline.wall_ns(note.ended),
                instrumentation_scope=self._scope,
            )
            for note in notes
        ]


def _own_span(timeline: Timeline, span_id: int) -> SpanContext:
    return SpanContext(timeline.trace_number, span_id, is_remote=False, trace_flags=_SAMPLED)


def _remote_span(parent: RemoteParent) -> SpanContext:
    return SpanContext(
        parent.trace_id,
        parent.span_id,
        is_remote=True,
        trace_flags=_SAMPLED if parent.is_sampled else _NOT_SAMPLED,
        trace_state=TraceState.from_header([parent.tracestate]) if parent.tracestate else None,
    )


def _links(links: Sequence[TraceLink]) -> list[Link]:
    return [link for trace_id, span_id in links if (link := _link(trace_id, span_id)) is not None]


def _link(trace_id: str, span_id: str) -> Link | None:
    try:
        there = SpanContext(int(trace_id, 16), int(span_id, 16), is_remote=True)
    except ValueError:  # ids that were kept with an answer, perhaps by another version
        return None
    return Link(there) if there.is_valid else None
