"""Collectors that are away, slow or broken, and telemetry that fails: no request may notice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

import pytest
import structlog
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from gateway.settings.reading import Settings
from gateway.telemetry.metrics_merge import render
from gateway.telemetry.span_export import SpanExport
from gateway.telemetry.telemetry import Telemetry

from .otlp import black_hole, free_port

CHAT = "POST /v1/chat/completions"

Start = Callable[[str], Telemetry]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    def start(endpoint: str) -> Telemetry:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
        return Telemetry.start(Settings(), worker=0)

    return start


def record(telemetry: Telemetry, count: int) -> None:
    """Record so many small requests."""
    for _ in range(count):
        timeline = telemetry.begin(CHAT, [])
        timeline.note("auth.authenticate", timeline.started, timeline.started)
        timeline.finish(200)
        telemetry.record(timeline)


def text(telemetry: Telemetry) -> str:
    return render(telemetry.metrics.snapshot(), as_openmetrics=False).decode()


@pytest.mark.parametrize("protocol", ["http/protobuf", "grpc"])
async def test_a_collector_that_never_answers_does_not_hold_up_the_end(
    start: Start, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)
    with black_hole() as endpoint:
        telemetry = start(endpoint)
        record(telemetry, 500)
        started = time.monotonic()
        telemetry.shutdown(0.3)
        assert time.monotonic() - started < 1.0
    assert 'echogate_spans_dropped_total{reason="shutdown"} 1000.0' in text(telemetry)


class _Stuck(SpanExporter):
    """Takes spans and comes back when it is let go."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.was_let_go = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.was_let_go = self.let_go.wait(60)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        pass


async def test_recording_never_waits_for_a_collector_that_never_answers() -> None:
    dropped: list[tuple[int, str]] = []
    stuck = _Stuck()
    telemetry = Telemetry.start(Settings(), worker=0)
    telemetry._export = SpanExport(stuck, max_queue=2048, on_dropped=lambda *fact: dropped.append(fact))
    record(telemetry, 3000)
    stuck.let_go.set()  # only now: had anything above waited for it, it would have waited in vain
    telemetry.shutdown(30)
    assert stuck.was_let_go
    # 2,048 wait, and up to 512 more are in the exporter's hands; all others were dropped and counted.
    assert set(dropped) == {(1, "queue-full")}
    assert 6000 - 2048 - 512 <= len(dropped) <= 6000 - 2048


async def test_a_collector_that_refuses_is_one_line_of_log_a_minute(start: Start) -> None:
    telemetry = start(f"http://127.0.0.1:{free_port()}")
    with structlog.testing.capture_logs() as lines:
        record(telemetry, 3000)
        telemetry.shutdown(0.3)
    assert len([line for line in lines if "collector did not take spans" in line["event"]]) <= 1


async def test_an_export_that_fails_after_the_end_is_neither_told_nor_counted_again(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.3")
    with black_hole() as endpoint:
        telemetry = start(endpoint)
        record(telemetry, 1)
        before = threading.enumerate()
        telemetry.shutdown(0.01)
        (left_behind,) = (thread for thread in threading.enumerate() if thread not in before)
        with structlog.testing.capture_logs() as lines:
            left_behind.join(5)
    assert lines == []
    assert "export-failed" not in text(telemetry)


class _Broken(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("prompt text that an exporter happened to quote")

    def shutdown(self) -> None:
        pass


async def test_an_exporter_that_raises_loses_its_spans_and_nothing_else() -> None:
    dropped: list[tuple[int, str]] = []
    export = SpanExport(_Broken(), max_queue=512, on_dropped=lambda *fact: dropped.append(fact))
    telemetry = Telemetry.start(Settings(), worker=0)
    telemetry._export = export
    with structlog.testing.capture_logs() as lines:
        record(telemetry, 10)
        telemetry.shutdown(2.0)
    assert dropped == [(20, "export-failed")]
    assert "prompt text" not in repr(lines)


@pytest.mark.parametrize(
    "part", ["metrics.count", "_request_log.write", "_spans.of_notes", "_spans.of_request"]
)
async def test_whatever_fails_inside_never_reaches_the_request(
    start: Start, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def fail(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("inside")

    with black_hole() as endpoint:
        telemetry = start(endpoint)
        owner, _, name = part.rpartition(".")
        monkeypatch.setattr(getattr(telemetry, owner), name, fail)
        record(telemetry, 3)
        telemetry.shutdown(0.01)
    assert "echogate_telemetry_errors_total 3.0" in text(telemetry)


@pytest.fixture(autouse=True)
def _no_line_is_swallowed() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
