"""Decides what becomes of a request's timeline: spans if it is kept, metrics, and one log line.

Spans are built from recorded times when the request is over (telemetry/span_build.py) and sent in the background
(telemetry/span_export.py); these three files alone know OpenTelemetry. What goes wrong in here never reaches a request.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
import uuid
from collections.abc import Iterable, Sequence

import structlog
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.trace import SpanKind

from ..settings.reading import Settings, read_otel_environment
from ..version import VERSION
from .logs import RequestLog
from .metrics import Metrics
from .span_build import SpanBuilder, remote_context
from .span_export import SpanExport, open_export
from .timeline import Timeline
from .tracecontext import read_headers

_log = structlog.get_logger("gateway.telemetry.telemetry")

_FLUSH_EARLY_AFTER_S = 10.0
_FAULT_LINE_EVERY_S = 60.0
_NO_PARENT = Context()


class Telemetry:
    """One per process. `begin`, `record`, `emit_late` are for the event loop and never block or raise."""

    def __init__(
        self,
        *,
        provider: TracerProvider,
        export: SpanExport | None,
        metrics: Metrics,
        log: RequestLog,
        trust: str,
        slow_s: float,
    ) -> None:
        self.metrics = metrics
        self._sampler = provider.sampler
        self._spans = SpanBuilder(provider.resource)
        self._export = export
        self._request_log = log
        self._trust = trust
        self._slow_s = slow_s
        self._fault_line_after = 0.0
        # Sampled requests that run now, for the early flush; bounded by the requests in flight.
        self._running: set[Timeline] = set()
        self._sweep: asyncio.TimerHandle | None = None

    @classmethod
    def start(cls, settings: Settings, *, worker: int) -> Telemetry:
        """Telemetry of this process, set up by OTEL_* variables. Call it after the process was spawned."""
        environment = read_otel_environment()
        metrics = Metrics(settings.pools)
        export = None
        if environment.protocol is not None:
            export = open_export(
                environment.protocol,
                max_queue=environment.max_queue,
                on_dropped=lambda spans, reason: metrics.spans_dropped.add(reason, amount=spans),
            )
        return cls(
            # Only asked for what it reads from the environment: the sampler and the resource.
            provider=TracerProvider(resource=_resource(worker), shutdown_on_exit=False),
            export=export,
            metrics=metrics,
            log=RequestLog(sys.stderr.buffer),
            trust=settings.telemetry.trust,
            slow_s=settings.telemetry.slow_ms / 1e3,
        )

    def begin(self, name: str, headers: Sequence[tuple[bytes, bytes]]) -> Timeline:
        """A request named `name` ("POST /v1/chat/completions") has arrived; the sampler is asked, once."""
        incoming = read_headers(headers)
        sent, trust = incoming.parent, self._trust
        parent = sent if trust == "parent" else None
        trace_id = parent.trace_id if parent else random.getrandbits(128) or 1
        decision = self._sampler.should_sample(
            remote_context(parent) if parent else _NO_PARENT, trace_id, name, SpanKind.SERVER
        ).decision
        timeline = Timeline(
            name,
            trace_id=trace_id,
            is_sampled=decision is Decision.RECORD_AND_SAMPLE,
            parent=parent,
            tracestate=parent.tracestate if parent else "",
            links=[(f"{sent.trace_id:032x}", f"{sent.span_id:016x}")] if sent and trust == "link" else (),
            client_request_id=incoming.request_id,
        )
        if self._export is not None and timeline.is_sampled:
            self._running.add(timeline)
            if self._sweep is None:
                self._schedule_sweep()
        return timeline

    def record(self, timeline: Timeline) -> None:
        """The request is over: its spans, its metrics, its log line. Once; later calls do nothing."""
        if timeline.is_recorded:
            return
        timeline.is_recorded = True
        self._running.discard(timeline)
        try:
            if not timeline.is_sampled and self._export is not None:
                timeline.is_kept_by_tail = timeline.outcome == "error" or timeline.duration_s >= self._slow_s
            is_kept = self._export is not None and (timeline.is_sampled or timeline.is_kept_by_tail)
            self.metrics.count(timeline, exemplar={"trace_id": timeline.trace_id} if is_kept else None)
            self._request_log.write(timeline)
            if is_kept:
                self._put(self._spans.of_notes(timeline))
                self._put([self._spans.of_request(timeline)])
        except Exception as error:  # the boundary: an answer must not fail because its telemetry did
            self._fault(error)

    def emit_late(self, timeline: Timeline) -> None:
        """Send what was noted after `record`: parts that outlive their request, as storing its answer may."""
        try:
            if timeline.is_sampled or timeline.is_kept_by_tail:
                self._put(self._spans.of_notes(timeline))
        except Exception as error:  # the same boundary
            self._fault(error)

    def close_log(self) -> None:
        """Write the lines of the last moment."""
        self._request_log.close()

    def shutdown(self, timeout_s: float) -> None:
        """Send what is queued, for at most `timeout_s`. Blocking; not for the event loop."""
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None
        if self._export is not None:
            self._export.shutdown(timeout_s)

    def _schedule_sweep(self) -> None:
        self._sweep = asyncio.get_running_loop().call_later(_FLUSH_EARLY_AFTER_S, self._flush_early)

    def _flush_early(self) -> None:
        """Send the finished parts of requests that run long, so that a trace of now can be looked at now."""
        self._sweep = None
        started_before = time.monotonic() - _FLUSH_EARLY_AFTER_S
        for timeline in self._running:
            if timeline.started <= started_before:
                self.emit_late(timeline)
        if self._running:
            self._schedule_sweep()

    def _put(self, spans: Iterable[ReadableSpan]) -> None:
        if self._export is not None:
            for span in spans:
                self._export.put(span)

    def _fault(self, error: Exception) -> None:
        self.metrics.telemetry_errors.add()
        now = time.monotonic()
        if now >= self._fault_line_after:
            self._fault_line_after = now + _FAULT_LINE_EVERY_S
            _log.warning("telemetry failed", fault=type(error).__name__)

    def __repr__(self) -> str:
        return f"<Telemetry {len(self._running)} sampled requests running, {self._export}>"


def _resource(worker: int) -> Resource:
    mine: dict[str, str | int] = {
        "service.version": VERSION,
        "service.instance.id": str(uuid.uuid4()),  # a worker is an instance; a restarted one a new instance
        "echogate.worker": worker,
    }
    resource = Resource.create(mine)  # with OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "echogate"}))
    return resource
