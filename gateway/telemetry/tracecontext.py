"""Reads what a caller says of its trace (W3C Trace Context). Pure; the malformed counts as not sent."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_TRACEPARENT = re.compile(rb"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]*)?")
_MAX_TRACEPARENT = 512  # future versions may be longer than the 55 bytes of version 00, within reason

_MEMBER = re.compile(
    rb"(?:[a-z][a-z0-9_\-*/]{0,255}|[a-z0-9][a-z0-9_\-*/]{0,240}@[a-z][a-z0-9_\-*/]{0,13})"
    rb"=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{0,255}[\x21-\x2b\x2d-\x3c\x3e-\x7e]"
)
_MAX_MEMBERS = 32
_MAX_TRACESTATE = 8 * 1024

_REQUEST_ID = re.compile(rb"[\x20-\x7e]{1,128}")


@dataclass(frozen=True, slots=True)
class RemoteParent:
    """The caller's span. `tracestate` is empty or valid."""

    trace_id: int
    span_id: int
    is_sampled: bool
    tracestate: str = ""


@dataclass(frozen=True, slots=True)
class Incoming:
    parent: RemoteParent | None = None
    request_id: str | None = None


NOTHING = Incoming()


def read_headers(headers: Iterable[tuple[bytes, bytes]]) -> Incoming:
    """What ASGI headers (lower-case names) say of the trace and the caller's own request id.

    `baggage` is not looked at: it is never forwarded.
    """
    parents: list[bytes] = []
    states: list[bytes] = []
    request_id: bytes | None = None
    for name, value in headers:
        if name == b"traceparent":
            parents.append(value)
        elif name == b"tracestate":
            states.append(value)
        elif name == b"x-request-id" and request_id is None:
            request_id = value
    if not parents and request_id is None:
        return NOTHING
    return Incoming(
        parent=parse_parent(parents[0], states) if len(parents) == 1 else None,
        request_id=parse_request_id(request_id) if request_id is not None else None,
    )


def parse_parent(traceparent: bytes, tracestate: list[bytes]) -> RemoteParent | None:
    if len(traceparent) > _MAX_TRACEPARENT:
        return None
    match = _TRACEPARENT.fullmatch(traceparent.strip(b" \t"))
    if match is None:
        return None
    version, trace_id, span_id, flags, rest = match.groups()
    if version == b"ff" or (version == b"00" and rest is not None):
        return None
    parent = RemoteParent(
        trace_id=int(trace_id, 16),
        span_id=int(span_id, 16),
        is_sampled=bool(int(flags, 16) & 1),
        tracestate=parse_state(tracestate),
    )
    return parent if parent.trace_id and parent.span_id else None


def parse_state(headers: list[bytes]) -> str:
    """The list members in order, or "" if any is invalid, twice there, or there are too many."""
    joined = b",".join(headers)
    if not joined or len(joined) > _MAX_TRACESTATE:
        return ""
    members = [member for part in joined.split(b",") if (member := part.strip(b" \t"))]
    keys = {member.partition(b"=")[0] for member in members}
    if len(members) > _MAX_MEMBERS or len(keys) < len(members):
        return ""
    if not all(_MEMBER.fullmatch(member) for member in members):
        return ""
    return b",".join(members).decode("ascii")


def parse_request_id(value: bytes) -> str | None:
    return value.decode("ascii") if _REQUEST_ID.fullmatch(value) else None
