"""Owns what one request tells of itself while it runs: ids made up front, notes with times, and its record.

Noting costs next to nothing, so it is done whether or not the request is sampled; telemetry/telemetry.py decides at
the end what becomes of it. Times are `time.monotonic()` seconds; one wall-clock anchor dates them all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from .tracecontext import RemoteParent

AttributeValue = str | int | float | bool | Sequence[str]
Attributes = Mapping[str, AttributeValue]
Link = tuple[str, str]  # trace id and span id of another trace, in hex
Kind = Literal["internal", "client"]

_NO_ATTRIBUTES: Attributes = {}
_SPAN_IDS = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15  # odd, so that every id of a trace differs until 2^64 of them are used


class Note(NamedTuple):
    """A finished part of the request; becomes one span."""

    name: str
    span_id: int
    parent_id: int
    started: float
    ended: float
    attributes: Attributes
    kind: Kind
    links: Sequence[Link]
    error: str | None


class Timeline:
    """One request from its first byte to its last. Made by `Telemetry.begin`, handed to `Telemetry.record`.

    The typed fields are filled in by whoever learns the fact; they hold ids, counts and machine words,
    never text of a prompt or an answer.
    """

    endpoint: str = ""
    model: str | None = None  # the public name, only once a pool is known to serve it
    tenant: str | None = None
    service: str | None = None
    key_id: str | None = None
    status: int = 0
    cache_outcome: str | None = None  # as in x-cache: HIT-EXACT, HIT-SEMANTIC, MISS, BYPASS, REFRESH
    cache_reason: str | None = None
    similarity: float | None = None
    entry_id: str | None = None
    backend: str | None = None
    is_stream: bool = False
    input_tokens: int | None = None
    output_tokens: int | None = None
    first_byte_at: float | None = None  # of the answer's content, towards the client
    error_type: str | None = None
    ended: float | None = None

    is_recorded: bool = False
    is_kept_by_tail: bool = False

    def __init__(
        self,
        name: str,
        *,
        trace_id: int,
        is_sampled: bool,
        parent: RemoteParent | None = None,
        tracestate: str = "",
        links: Sequence[Link] = (),
        client_request_id: str | None = None,
    ) -> None:
        # As OpenTelemetry makes its ids: to be unique, not to be secret.
        ids = random.randbytes(24)  # noqa: S311
        self.name = name
        self.trace_number = trace_id
        self.trace_id = f"{trace_id:032x}"
        self.is_sampled = is_sampled
        self.parent = parent
        self.tracestate = tracestate
        self.client_request_id = client_request_id
        self.request_id = "req_" + ids[:16].hex()
        self.root_span_id = int.from_bytes(ids[16:], "big") or 1
        self.links: list[Link] = list(links)
        self.notes: list[Note] = []
        self.started = time.monotonic()
        self.started_wall_ns = time.time_ns()
        self._last_span_id = self.root_span_id

    def new_span_id(self) -> int:
        """An id for a span that is noted later but must be named now (its children run elsewhere)."""
        self._last_span_id = (self._last_span_id + _STRIDE) & _SPAN_IDS or self.new_span_id()
        return self._last_span_id

    def traceparent(self, span_id: int) -> str:
        """The header that makes whatever a backend records a child of this span."""
        return f"00-{self.trace_id}-{span_id:016x}-{'01' if self.is_sampled else '00'}"

    def link_to(self, span_id: int | None = None) -> Link:
        """What another trace needs to point here (default: the whole request)."""
        return self.trace_id, f"{span_id or self.root_span_id:016x}"

    def note(
        self,
        name: str,
        started: float,
        ended: float,
        attributes: Attributes = _NO_ATTRIBUTES,
        *,
        parent: int | None = None,
        span_id: int | None = None,
        kind: Kind = "internal",
        links: Sequence[Link] = (),
        error: str | None = None,
    ) -> int:
        """Note a finished part under `parent` (None: the request itself); `error` is a short machine word."""
        own = span_id or self.new_span_id()
        under = parent or self.root_span_id
        self.notes.append(Note(name, own, under, started, ended, attributes, kind, links, error))
        return own

    def finish(self, status: int) -> None:
        """The request is over: 499 says that the client left. The first call counts."""
        if self.ended is None:
            self.status = status
            self.ended = time.monotonic()

    @property
    def duration_s(self) -> float:
        return (time.monotonic() if self.ended is None else self.ended) - self.started

    @property
    def outcome(self) -> Literal["ok", "client_error", "client_closed", "error"]:
        if self.status == 499:
            return "client_closed"
        if self.error_type == "cache_miss":
            return "client_error"  # the caller had asked to be told so, by only-if-cached
        if self.status >= 500 or (self.error_type is not None and self.status < 400):
            return "error"  # the second: an error frame in a stream that began with 200
        return "client_error" if self.status >= 400 else "ok"

    @property
    def cache_word(self) -> str:
        """How the answer came about, as a label: hit-exact, hit-semantic, miss, shared, bypass, …, none."""
        if self.cache_outcome == "MISS" and self.cache_reason == "shared":
            return "shared"
        return self.cache_outcome.lower() if self.cache_outcome else "none"

    def wall_ns(self, moment: float) -> int:
        return self.started_wall_ns + int((moment - self.started) * 1e9)

    def __repr__(self) -> str:
        state = self.outcome if self.ended is not None else "running"
        return (
            f"<Timeline {self.name} {self.request_id} trace={self.trace_id} {state} {self.status} "
            f"{self.duration_s * 1e3:.1f} ms, {len(self.notes)} notes>"
        )
