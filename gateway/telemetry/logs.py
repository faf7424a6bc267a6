"""Decides how log lines look: one JSON object a line on stderr, our own and those of libraries alike."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import MutableMapping
from functools import lru_cache
from typing import Any, BinaryIO

import msgspec
import structlog

from .timeline import Timeline

_encoder = msgspec.json.Encoder()

_LINES_EVERY_S = 0.02


def _to_json(event: dict[str, Any], **_: object) -> bytes:
    return _encoder.encode(event)


def _tell_where(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Of an exception the type and the places it went through; its text may quote what was worked on."""
    error = event.pop("exc_info", None)
    if error is True:
        error = sys.exc_info()[1]
    if isinstance(error, BaseException):
        event["exception"] = type(error).__name__
        frames = traceback.extract_tb(error.__traceback__)
        event["where"] = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
    return event


def configure(*, worker: int | None = None) -> None:
    """Send structlog and the standard library's logging to stderr as JSON. Once per process."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
            _tell_where,
            structlog.processors.JSONRenderer(serializer=_to_json),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.BytesLoggerFactory(sys.stderr.buffer),
    )
    structlog.contextvars.bind_contextvars(**({"worker": worker} if worker is not None else {}))
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonFormatter())
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)


class _JsonFormatter(logging.Formatter):
    """Lines of libraries. Their exception texts may quote what they worked on, so only the type is told."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "event": record.getMessage(),
            "logger": record.name,
            "level": record.levelname.lower(),
            "time": _iso(record.created),
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["exception"] = record.exc_info[0].__name__
        return _encoder.encode(line).decode()


class RequestLog:
    """Writes the one line of each request, past structlog's processors: it is on every request's path.

    The lines of a moment leave in one write, since a write wakes whoever reads the log and costs more than making
    the line. `close` writes what is left.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._timer: asyncio.TimerHandle | None = None

    def write(self, timeline: Timeline) -> None:
        duration_s = timeline.duration_s
        line: dict[str, str | int | float | bool | None] = {
            "event": "request",
            "level": "error" if timeline.outcome == "error" else "info",
            "time": _iso(timeline.started_wall_ns / 1e9 + duration_s),
            "trace_id": timeline.trace_id,
            "span_id": f"{timeline.root_span_id:016x}",
            "request_id": timeline.request_id,
            "endpoint": timeline.endpoint,
            "model": timeline.model,
            "status": timeline.status,
            "latency_ms": round(duration_s * 1e3, 3),
            "input_tokens": timeline.input_tokens,
            "output_tokens": timeline.output_tokens,
            "cache": timeline.cache_outcome,
            "cache_reason": timeline.cache_reason,
            "tenant": timeline.tenant,
            "key_id": timeline.key_id,
            "backend": timeline.backend,
            "is_stream": timeline.is_stream,
        }
        if timeline.error_type is not None:
            line["error"] = timeline.error_type
        self._lines.append(_encoder.encode(line))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_LINES_EVERY_S, self.close)

    def close(self) -> None:
        """Write the lines that wait. Further lines may follow."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        lines, self._lines = self._lines, []
        if lines:
            self._stream.write(b"\n".join(lines) + b"\n")
            self._stream.flush()


def _iso(wall_s: float) -> str:
    return f"{_second(int(wall_s))}.{int(wall_s % 1 * 1e6):06d}Z"


@lru_cache(maxsize=4)  # lines come many to a second
def _second(wall_s: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(wall_s))
