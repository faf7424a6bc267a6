"""Writes docs/telemetry.md from the tables the code itself uses, so that it cannot say anything else."""

from __future__ import annotations

from .metrics_table import METRICS
from .span_table import ATTRIBUTES, SPANS

_HEAD = """\
# Telemetry

Made from the code by `echogate docs telemetry > docs/telemetry.md`; do not edit.

Every request is one trace. Its id is in the header `x-trace-id` of every reply, in the log line of the request,
and in the exemplars of the metrics. Prompts, answers, keys and tokens are in none of them.

## Setting it up

Traces leave where `OTEL_EXPORTER_OTLP_ENDPOINT` (or `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`) is set. These are
OpenTelemetry's own variables, read by its SDK: `OTEL_EXPORTER_OTLP_*` (protocol `http/protobuf`, the default, or
`grpc`; headers, certificates, compression, timeout), `OTEL_TRACES_SAMPLER` and `OTEL_TRACES_SAMPLER_ARG`,
`OTEL_SERVICE_NAME` (default `echogate`), `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_*`, `OTEL_TRACES_EXPORTER=none`,
`OTEL_SDK_DISABLED`. Not supported: `OTEL_PROPAGATORS` (W3C Trace Context only; baggage is not passed on) and the
span limits.

Requests that failed (5xx, or an error frame in a stream) or were slower than `telemetry.slow_ms` are kept
whatever the sampler said, marked `echogate.trace.kept=tail`. The backend's part is absent from these traces,
because the backend had been told that they are not sampled. A caller that leaves is no failure: the request is
logged with status 499 and `echogate.outcome=client_closed`.
"""


def telemetry_markdown() -> str:
    lines = [_HEAD, "## Spans", "", "| span | kind | parent | what |", "|---|---|---|---|"]
    lines += [f"| `{span.name}` | {span.kind} | {span.parent} | {span.meaning} |" for span in SPANS]
    lines += ["", "## Attributes", "", "| attribute | on | meaning |", "|---|---|---|"]
    for name, meaning in sorted(ATTRIBUTES.items()):
        spans = ", ".join(f"`{span.name}`" for span in SPANS if name in span.attributes)
        lines.append(f"| `{name}` | {spans} | {meaning} |")
    lines += ["", "## Metrics", "", "At `/metrics` of the admin plane, added up over all workers.", ""]
    lines += ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for fact in METRICS:
        labels = ", ".join(f"`{label}`" for label in fact.labels)
        lines.append(f"| `{fact.name}` | {fact.kind} | {labels} | {fact.meaning} |")
    return "\n".join(lines) + "\n"
