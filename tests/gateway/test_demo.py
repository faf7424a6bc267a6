"""What the demo concludes and shows: steps that came out otherwise, a trace as a tree, spans by OTLP."""

from __future__ import annotations

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from gateway.embedded.demo.tour import STEPS, Seen, problems
from gateway.embedded.demo.trace_receiver import TraceReceiver
from gateway.embedded.demo.trace_tree import tree

TRACE = bytes(range(16))
AS_NAMED = tuple(step.expected for step in STEPS)


def seen(*, outcomes: tuple[str, ...] = AS_NAMED, hit: str = "two hours") -> list[Seen]:
    answers = {outcome: hit if outcome.startswith("HIT") else "two hours" for outcome in outcomes}
    steps = zip(STEPS, outcomes, strict=False)
    return [
        Seen(step, answers[outcome], 0.1, {"x-cache": outcome, "x-cache-reason": "why"})
        for step, outcome in steps
    ]


def span(number: int, name: str, *, parent: int | None = None, at_ms: int = 0, **attributes: str) -> Span:
    return Span(
        trace_id=TRACE,
        span_id=number.to_bytes(8, "big"),
        parent_span_id=parent.to_bytes(8, "big") if parent is not None else b"",
        name=name,
        start_time_unix_nano=10**18 + at_ms * 10**6,
        end_time_unix_nano=10**18 + (at_ms + 2) * 10**6,
        attributes=[KeyValue(key=k, value=AnyValue(string_value=v)) for k, v in attributes.items()],
    )


def test_a_tour_as_named_has_no_problems() -> None:
    assert problems(seen()) == []


def test_a_step_that_came_out_otherwise_is_named_with_its_reason() -> None:
    (problem,) = problems(seen(outcomes=("MISS", "HIT-EXACT", "MISS", "MISS", "HIT-EXACT")))
    assert problem == "“in other words” came out as MISS (why), expected HIT-SEMANTIC"


def test_a_hit_with_another_answer_is_a_problem() -> None:
    assert len(problems(seen(hit="three hours"))) == 3


def test_a_tour_that_was_cut_short_is_a_problem() -> None:
    assert problems(seen(outcomes=("MISS",))) == ["only 1 of 5 steps were taken"]


def test_a_trace_is_shown_as_a_tree_in_the_order_of_time() -> None:
    spans = [
        span(4, "late", parent=1, at_ms=5, **{"echogate.cache.reason": "absent", "other": "x"}),
        span(3, "grandchild", parent=2, at_ms=1),
        span(1, "root", parent=9),  # the caller's own span is not here
        span(2, "child", parent=1, at_ms=1),
    ]
    assert [line[:30].rstrip() for line in tree(spans)] == [
        "root",
        "├─ child",
        "│  └─ grandchild",
        "└─ late",
    ]
    assert tree(spans)[3].endswith("5.00      2.00 ms   reason=absent")


def test_no_spans_are_no_lines() -> None:
    assert tree([]) == []


async def test_the_receiver_takes_what_an_exporter_sends() -> None:
    sent = [span(1, "root"), span(2, "child", parent=1)]
    request = ExportTraceServiceRequest(resource_spans=[ResourceSpans(scope_spans=[ScopeSpans(spans=sent)])])
    with TraceReceiver() as receiver:
        async with httpx.AsyncClient(base_url=receiver.endpoint, trust_env=False) as client:
            assert (await client.post("/v1/traces", content=request.SerializeToString())).status_code == 200
        assert await receiver.trace(TRACE.hex(), with_spans=["root", "child"], within_s=5) == sent
        assert await receiver.trace(TRACE.hex(), with_spans=["another"], within_s=0) == sent
        assert await receiver.trace("00" * 16, with_spans=["root"], within_s=0) == []


@pytest.mark.parametrize(
    ("path", "body", "status"), [("/v1/traces", b"\xff\xff", 400), ("/v1/logs", b"", 404)]
)
async def test_the_receiver_refuses_what_it_does_not_know(path: str, body: bytes, status: int) -> None:
    with TraceReceiver() as receiver:
        async with httpx.AsyncClient(base_url=receiver.endpoint, trust_env=False) as client:
            assert (await client.post(path, content=body)).status_code == status
