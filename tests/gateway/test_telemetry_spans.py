"""From a timeline to a collector: one trace a request, its ids, parents, times and attributes, over real OTLP."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from auth import Grant, Meter
from backends import Attempt, Candidate
from cache import Answer, Entry, Hit, Miss, Step, Verdict
from gateway.settings.reading import Settings
from gateway.telemetry import spans
from gateway.telemetry.span_table import ATTRIBUTES, SPANS

from .otlp import Collector, free_port, grpc_collector, http_collector
from .recorded import CHAT, SPAN, TRACE, TRACEPARENT, Start, answered, sent, starting


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with starting(monkeypatch) as start:
        yield start


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


async def test_a_miss_has_every_span_of_its_path(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = telemetry.begin(CHAT, [])
    timeline.endpoint, timeline.model, timeline.is_stream = "/v1/chat/completions", "m", True
    now = timeline.started
    spans.note_authentication(timeline, now, now + 0.001)
    spans.note_limit(
        timeline, now, now + 0.002, Grant(requests=Meter(500, 499, 0.01), tokens=None, is_local=False)
    )
    steps = (
        Step("exact", now, now + 0.003, {"is_hit": False}),
        Step("canonical", now + 0.003, now + 0.003, {"is_hit": False}),
        Step("embed", now + 0.003, now + 0.004),
        Step("search", now + 0.004, now + 0.005, {"neighbours": 8}),
        Step("accept", now + 0.005, now + 0.006, {"candidates": 1, "threshold": 0.95}),
    )
    spans.note_lookup(timeline, now, now + 0.006, Miss("veto-number", steps, similarity=0.97))
    spans.note_wait(timeline, now + 0.006, now + 0.006, is_served=False)
    client = timeline.new_span_id()
    attempt = Attempt(
        1,
        "vllm-1",
        now + 0.006,
        (Candidate("vllm-1", 0.0), Candidate("vllm-2", 1.5)),
        now + 0.007,
        now + 0.009,
        200,
    )
    spans.note_attempt(
        timeline,
        attempt,
        span_id=client,
        operation="chat",
        upstream_model="u",
        ended=now + 0.01,
        input_tokens=3,
        output_tokens=7,
    )
    spans.note_store(timeline, now + 0.009, now + 0.01, is_stored=True, reason="stored")
    timeline.cache_outcome, timeline.cache_reason = "MISS", "veto-number"
    timeline.finish(200)
    telemetry.record(timeline)

    found = sent(telemetry, collector)
    assert set(found) == {span.name for span in SPANS} - {"chat <model>"} | {"chat u"}
    root = found[CHAT]
    assert {span.trace_id.hex() for span in found.values()} == {timeline.trace_id}
    assert (root.kind, root.parent_span_id) == (Span.SPAN_KIND_SERVER, b"")
    assert found["chat u"].kind == Span.SPAN_KIND_CLIENT
    assert found["chat u"].span_id == client.to_bytes(8, "big")
    lookup = found["cache.lookup"].span_id
    for name, span in found.items():
        inside = name in ("cache.exact", "cache.canonical", "cache.embed", "cache.search", "cache.accept")
        assert span.parent_span_id == (lookup if inside else root.span_id) or name == CHAT
        assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
    assert abs(root.start_time_unix_nano - time.time_ns()) < 5e9


async def test_every_attribute_that_is_sent_is_in_the_table(start: Start, collector: Collector) -> None:
    await test_a_miss_has_every_span_of_its_path(start, collector)
    allowed = {span.name.replace("<model>", "u"): set(span.attributes) for span in SPANS}
    for received in collector.spans:
        assert set(received.attributes) <= allowed[received.span.name]
        assert set(received.attributes) <= set(ATTRIBUTES)


async def test_a_hit_links_to_the_trace_that_made_the_answer(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = telemetry.begin(CHAT, [])
    answer = Answer("text of the answer", b"payload", {"trace_id": TRACE, "span_id": SPAN})
    hit = Hit(
        "semantic",
        Entry(17, "text of the question", answer, 0.0, 1.0),
        0.98,
        3.0,
        (),
        Verdict(True, "guarded", 0.98, 0.95),
    )
    spans.note_lookup(timeline, timeline.started, time.monotonic(), hit)
    timeline.finish(200)
    telemetry.record(timeline)

    (link,) = sent(telemetry, collector)["cache.lookup"].links
    assert (link.trace_id.hex(), link.span_id.hex()) == (TRACE, SPAN)
    assert b"text of the" not in collector.requests[0].SerializeToString()


async def test_a_broken_origin_costs_a_link_and_no_more(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = telemetry.begin(CHAT, [])
    timeline.links.append(("not hex", "at all"))
    timeline.finish(200)
    telemetry.record(timeline)
    assert not sent(telemetry, collector)[CHAT].links


async def test_spans_arrive_by_grpc(start: Start) -> None:
    with grpc_collector() as collector:
        telemetry = start(collector.endpoint, EXPORTER_OTLP_PROTOCOL="grpc")
        answered(telemetry)
        assert set(sent(telemetry, collector)) == {CHAT, "auth.authenticate"}


async def test_spans_arrive_at_oteltap(start: Start) -> None:
    port = free_port()
    async with OtelTapHttpProtobufReceiver(OtelTapHttpProtobufReceiverSettings(http_port=port)) as tap:
        telemetry = start(f"http://127.0.0.1:{port}")
        arriving = asyncio.ensure_future(tap.await_trace(lambda span: span.name == CHAT))
        await asyncio.sleep(0)
        timeline = answered(telemetry)
        await asyncio.to_thread(telemetry.shutdown, 5.0)
        assert (await asyncio.wait_for(arriving, 5)).trace_id.hex() == timeline.trace_id


async def test_an_incoming_trace_is_continued_and_passed_on(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = answered(telemetry, [*TRACEPARENT, (b"tracestate", b"a=1")])
    assert timeline.traceparent(5) == f"00-{TRACE}-{5:016x}-01"
    assert timeline.tracestate == "a=1"
    root = sent(telemetry, collector)[CHAT]
    assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, SPAN)


async def test_a_link_is_all_that_is_left_of_an_incoming_trace_if_so_configured(
    start: Start, collector: Collector
) -> None:
    telemetry = start(collector.endpoint, settings=Settings.model_validate({"telemetry": {"trust": "link"}}))
    timeline = answered(telemetry, [*TRACEPARENT, (b"tracestate", b"a=1")])
    root = sent(telemetry, collector)[CHAT]
    assert (timeline.trace_id != TRACE, timeline.tracestate, root.parent_span_id) == (True, "", b"")
    assert [link.trace_id.hex() for link in root.links] == [TRACE]


async def test_an_incoming_trace_can_be_ignored(start: Start, collector: Collector) -> None:
    telemetry = start(
        collector.endpoint, settings=Settings.model_validate({"telemetry": {"trust": "ignore"}})
    )
    assert answered(telemetry, TRACEPARENT).trace_id != TRACE
    assert not sent(telemetry, collector)[CHAT].links


async def test_the_callers_decision_not_to_sample_is_followed(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = answered(telemetry, [(b"traceparent", f"00-{TRACE}-{SPAN}-00".encode())])
    assert timeline.traceparent(5).endswith("-00")
    assert sent(telemetry, collector) == {}


async def test_the_samplers_share_is_kept(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint, TRACES_SAMPLER="traceidratio", TRACES_SAMPLER_ARG="0.25")
    timelines = [answered(telemetry) for _ in range(1000)]
    telemetry.shutdown(5.0)
    kept = {received.span.trace_id.hex() for received in collector.spans}
    assert kept == {timeline.trace_id for timeline in timelines if timeline.is_sampled}
    assert 150 < len(kept) < 350
