"""A real OTLP receiver for a test, and the environment that makes a gateway export to it.

async with collecting(monkeypatch) as collector:
    ...
    trace = await collector.trace(reply.headers["x-trace-id"], spans=6)
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from tests.valkey import eventually


class Trace:
    """The spans of one trace. Names are unique in the traces that are looked at by name."""

    def __init__(self, spans: list[Span]) -> None:
        self.spans = spans
        self.names = sorted(span.name for span in spans)

    def __getitem__(self, name: str) -> Span:
        (found,) = (span for span in self.spans if span.name == name)
        return found

    @property
    def root(self) -> Span:
        (found,) = (span for span in self.spans if span.kind == Span.SPAN_KIND_SERVER)
        return found

    def parent_of(self, name: str) -> str:
        parent_id = self[name].parent_span_id
        return next((span.name for span in self.spans if span.span_id == parent_id), "")

    def tree(self) -> dict[str, str]:
        return {span.name: self.parent_of(span.name) for span in self.spans}


def attributes(span: Span) -> dict[str, Any]:
    return {item.key: getattr(item.value, item.value.WhichOneof("value")) for item in span.attributes}


class Collector:
    def __init__(self) -> None:
        self.spans: list[Span] = []

    def of(self, trace_id: str) -> list[Span]:
        return [span for span in self.spans if span.trace_id.hex() == trace_id]

    async def trace(self, trace_id: str, *, spans: int) -> Trace:
        """The trace, once that many of its spans are here."""
        await eventually(lambda: len(self.of(trace_id)) >= spans)
        return Trace(self.of(trace_id))


@asynccontextmanager
async def collecting(monkeypatch: pytest.MonkeyPatch, *, sampled: bool = True) -> AsyncIterator[Collector]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{port}")
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "1.0" if sampled else "0.0")
    collector = Collector()
    async with OtelTapHttpProtobufReceiver(OtelTapHttpProtobufReceiverSettings(http_port=port)) as receiver:

        async def gather() -> None:
            async for span in receiver.stream_traces():
                collector.spans.append(span)

        gathering = asyncio.create_task(gather())
        try:
            yield collector
        finally:
            gathering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await gathering
