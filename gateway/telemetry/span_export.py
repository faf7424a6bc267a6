"""Owns the spans' way out of the process: the SDK's batch processor and OTLP exporter, bounded and quiet.

Built once per process, after it was spawned: an exporter made before would send nothing from its children.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Literal

import structlog
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

_log = structlog.get_logger("gateway.telemetry.span_export")

_FAULT_LINE_EVERY_S = 60.0


class SpanExport:
    """Sends finished spans in the background. `on_dropped(count, reason)` may be called from a thread."""

    def __init__(
        self, exporter: SpanExporter, *, max_queue: int, on_dropped: Callable[[int, str], None]
    ) -> None:
        self._exporter = _Watched(exporter, on_dropped=on_dropped)
        self._max_queue = max_queue
        self._on_dropped = on_dropped
        self._taken = 0
        self._processor = BatchSpanProcessor(self._exporter, max_queue_size=max_queue)

    def put(self, span: ReadableSpan) -> None:
        """Queue a span, or count it as dropped if the collector is too slow. Never waits."""
        if self._taken - self._exporter.started >= self._max_queue:
            self._on_dropped(1, "queue-full")
            return
        self._taken += 1
        self._processor.on_end(span)

    def shutdown(self, timeout_s: float) -> None:
        """Send what is queued and stop, or give up after the timeout. Blocking."""
        # The SDK waits for a whole export here, which a collector that never answers makes long. The thread
        # is left behind at the timeout; being a daemon it does not keep the process.
        thread = threading.Thread(target=self._processor.shutdown, name="span-export-shutdown", daemon=True)
        thread.start()
        thread.join(timeout_s)
        if thread.is_alive():
            left = self._exporter.abandon(self._taken)
            self._on_dropped(left, "shutdown")
            _log.warning("spans were left behind: the collector did not take them in time", spans=left)

    def __repr__(self) -> str:
        exporter = self._exporter
        return f"<SpanExport taken={self._taken} started={exporter.started} finished={exporter.finished}>"


def open_export(
    protocol: Literal["http/protobuf", "grpc"], *, max_queue: int, on_dropped: Callable[[int, str], None]
) -> SpanExport:
    """An export by OTLP; endpoint, headers, TLS and timeouts come from OTEL_EXPORTER_OTLP_* by the SDK."""
    # The SDK logs each failed batch with its stack. We count them and write our own line once a minute.
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    exporter: SpanExporter = GrpcExporter() if protocol == "grpc" else HttpExporter()
    return SpanExport(exporter, max_queue=max_queue, on_dropped=on_dropped)


class _Watched(SpanExporter):
    """Counts what the exporter takes and loses, and says so at most once a minute."""

    def __init__(self, exporter: SpanExporter, *, on_dropped: Callable[[int, str], None]) -> None:
        self._exporter = exporter
        self._on_dropped = on_dropped
        self._fault_line_after = 0.0
        self._is_abandoned = False
        self.started = 0
        self.finished = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.started += len(spans)
        try:
            result = self._exporter.export(spans)
            fault = "refused or unreachable"
        except Exception as error:  # whatever an exporter raises, its thread must go on: the span is lost
            result = SpanExportResult.FAILURE
            fault = type(error).__name__
        self.finished += len(spans)
        if result is not SpanExportResult.SUCCESS:
            self._lost(len(spans), fault)
        return result

    def abandon(self, taken: int) -> int:
        """Of `taken` spans, how many are given up; what becomes of them later is neither told nor counted."""
        self._is_abandoned = True
        return taken - self.finished

    def _lost(self, spans: int, fault: str) -> None:
        if self._is_abandoned:
            return
        self._on_dropped(spans, "export-failed")
        now = time.monotonic()
        if now >= self._fault_line_after:
            self._fault_line_after = now + _FAULT_LINE_EVERY_S
            _log.warning("the trace collector did not take spans", fault=fault, spans=spans)

    def shutdown(self) -> None:
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        return self._exporter.force_flush(timeout_millis)
