"""Decides how a trace is shown in a terminal: a tree of spans with times and the attributes that tell the story."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span

_SHOWN = (
    "echogate.cache.outcome",
    "echogate.cache.tier",
    "echogate.cache.reason",
    "echogate.cache.similarity",
    "echogate.cache.stored",
    "echogate.limit.remaining",
    "echogate.tenant",
    "echogate.backend",
    "echogate.backend.candidates",
    "echogate.backend.first_byte_ms",
    "gen_ai.usage.input_tokens",
    "gen_ai.usage.output_tokens",
    "http.response.status_code",
    "error.type",
)
_NAME_WIDTH = 34


def tree(spans: Sequence[Span]) -> list[str]:
    """A line for each span: where it stands in the tree, when it began, how long it took, what it tells."""
    ids = {span.span_id for span in spans}
    children: dict[bytes, list[Span]] = defaultdict(list)
    for span in sorted(spans, key=lambda span: span.start_time_unix_nano):
        # A span whose parent is elsewhere (the caller's, or one that was lost) stands at the top.
        children[span.parent_span_id if span.parent_span_id in ids else b""].append(span)
    roots = children[b""]
    origin_ns = min((span.start_time_unix_nano for span in spans), default=0)
    lines: list[str] = []
    for root in roots:
        _add(root, "", "", children, origin_ns, lines)
    return lines


def _add(
    span: Span, branch: str, stem: str, children: dict[bytes, list[Span]], origin_ns: int, lines: list[str]
) -> None:
    begun_ms = (span.start_time_unix_nano - origin_ns) / 1e6
    took_ms = (span.end_time_unix_nano - span.start_time_unix_nano) / 1e6
    name = (branch + span.name).ljust(_NAME_WIDTH)
    lines.append(f"{name} {begun_ms:9.2f} {took_ms:9.2f} ms   {_facts(span)}".rstrip())
    below = children[span.span_id]
    for child in below:
        is_last = child is below[-1]
        _add(
            child,
            stem + ("└─ " if is_last else "├─ "),
            stem + ("   " if is_last else "│  "),
            children,
            origin_ns,
            lines,
        )


def _facts(span: Span) -> str:
    found = {attribute.key: _text(attribute.value) for attribute in span.attributes}
    shown = [f"{_short(name)}={found[name]}" for name in _SHOWN if name in found]
    linked = [f"link={link.trace_id.hex()[:8]}…" for link in span.links]
    return "  ".join([*shown, *linked])


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _text(value: AnyValue) -> str:
    match value.WhichOneof("value"):
        case "string_value":
            return value.string_value
        case "bool_value":
            return "yes" if value.bool_value else "no"
        case "int_value":
            return str(value.int_value)
        case "double_value":
            return f"{value.double_value:.4g}"
        case "array_value":
            return ",".join(_text(item) for item in value.array_value.values)
        case _:
            return "?"
