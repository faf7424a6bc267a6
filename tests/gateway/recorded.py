"""Telemetry of one worker for a test: started against a collector, given small requests, read at the far end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.settings.reading import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.telemetry.timeline import Timeline

from .otlp import Collector

CHAT = "POST /v1/chat/completions"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())]

Start = Callable[..., Telemetry]


@contextmanager
def starting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start telemetry of one worker against a collector, with more OTEL_* variables by name."""
    started: list[Telemetry] = []

    def start(
        endpoint: str | None, *, settings: Settings | None = None, worker: int = 0, **otel: str
    ) -> Telemetry:
        if endpoint is not None:
            otel["EXPORTER_OTLP_ENDPOINT"] = endpoint
        for name, value in otel.items():
            monkeypatch.setenv(f"OTEL_{name}", value)
        telemetry = Telemetry.start(settings or Settings(), worker=worker)
        started.append(telemetry)
        return telemetry

    yield start
    for telemetry in started:
        telemetry.shutdown(1.0)


def answered(
    telemetry: Telemetry, headers: Sequence[tuple[bytes, bytes]] = (), *, status: int = 200
) -> Timeline:
    """A small request, recorded."""
    timeline = telemetry.begin(CHAT, headers)
    timeline.endpoint = "/v1/chat/completions"
    timeline.note("auth.authenticate", timeline.started, time.monotonic())
    timeline.finish(status)
    telemetry.record(timeline)
    return timeline


def sent(telemetry: Telemetry, collector: Collector) -> dict[str, Span]:
    telemetry.shutdown(5.0)
    return {received.span.name: received.span for received in collector.spans}
