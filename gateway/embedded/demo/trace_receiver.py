"""Owns a small OTLP collector on a free local port: it keeps the latest traces in memory, for the tour to show."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import TracebackType
from typing import Any, Self

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_KEPT_TRACES = 200
_BODY_LIMIT = 16 << 20
_POLL_S = 0.02


class TraceReceiver:
    """A collector for OTLP over http/protobuf. `endpoint` is what OTEL_EXPORTER_OTLP_ENDPOINT is set to."""

    def __init__(self) -> None:
        self._traces: OrderedDict[str, list[Span]] = OrderedDict()
        self._server = HTTPServer(("127.0.0.1", 0), partial(_Handler, take=self._take))
        serve = partial(self._server.serve_forever, poll_interval=_POLL_S)
        self._thread = threading.Thread(target=serve, name="trace receiver", daemon=True)
        self.endpoint = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    async def trace(self, trace_id: str, *, with_spans: Collection[str], within_s: float) -> list[Span]:
        """The spans of a trace as soon as those named are among them; else those there are when time is over."""
        deadline = time.monotonic() + within_s
        while True:
            spans = list(self._traces.get(trace_id, ()))
            if time.monotonic() > deadline or set(with_spans) <= {span.name for span in spans}:
                return spans
            await asyncio.sleep(_POLL_S)

    def _take(self, request: ExportTraceServiceRequest) -> None:
        for resource in request.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._traces.setdefault(span.trace_id.hex(), []).append(span)
        while len(self._traces) > _KEPT_TRACES:
            self._traces.popitem(last=False)


class _Handler(BaseHTTPRequestHandler):
    timeout = 5  # for a client that sends half a request

    def __init__(self, *args: Any, take: Callable[[ExportTraceServiceRequest], None], **kwargs: Any) -> None:
        self._take = take
        super().__init__(*args, **kwargs)

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        if self.path != "/v1/traces" or length > _BODY_LIMIT:
            self.send_error(404 if self.path != "/v1/traces" else 413)
            return
        try:
            self._take(ExportTraceServiceRequest.FromString(self.rfile.read(length)))
        except DecodeError:
            self.send_error(400)
            return
        reply = ExportTraceServiceResponse().SerializeToString()
        self.send_response(200)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the tour has the terminal."""
