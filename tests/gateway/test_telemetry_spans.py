"""From a timeline to a collector: one trace a request, its ids, parents, times and attributes, over real OTLP."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator, Sequence

import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status
from oteltap import OtelTapHttpProtobufReceiver, OtelTapHttpProtobufReceiverSettings

from auth import Grant, Meter
from backends import Attempt, Candidate
from cache import Answer, Entry, Hit, Miss, Step, Verdict
from gateway import spans
from gateway.logs import RequestLog
from gateway.settings import Settings
from gateway.span_table import ATTRIBUTES, SPANS
from gateway.telemetry import Telemetry
from gateway.timeline import Timeline

from .otlp import Collector, free_port, grpc_collector, http_collector

CHAT = "POST /v1/chat/completions"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = [(b"traceparent", f"00-{TRACE}-{SPAN}-01".encode())]

Start = Callable[..., Telemetry]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Start telemetry of one worker against a collector, with more OTEL_* variables by name."""
    started: list[Telemetry] = []

    def start(
        endpoint: str | None, *, settings: Settings | None = None, worker: int = 0, **otel: str
    ) -> Telemetry:
        if endpoint is not None:
            otel["EXPORTER_OTLP_ENDPOINT"] = endpoint
        for name, value in otel.items():
            monkeypatch.setenv(f"OTEL_{name}", value)
        telemetry = Telemetry.start(settings or Settings(), worker=worker)
        started.append(telemetry)
        return telemetry

    yield start
    for telemetry in started:
        telemetry.shutdown(1.0)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


def answered(
    telemetry: Telemetry, headers: Sequence[tuple[bytes, bytes]] = (), *, status: int = 200
) -> Timeline:
    """A small request, recorded."""
    timeline = telemetry.begin(CHAT, headers)
    timeline.endpoint = "/v1/chat/completions"
    timeline.note("auth.authenticate", timeline.started, time.monotonic())
    timeline.finish(status)
    telemetry.record(timeline)
    return timeline


def sent(telemetry: Telemetry, collector: Collector) -> dict[str, Span]:
    telemetry.shutdown(5.0)
    return {received.span.name: received.span for received in collector.spans}


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
        Step("embed", now + 0.003, now + 0.004),
        Step("search", now + 0.004, now + 0.005, {"neighbours": 8}),
        Step("accept", now + 0.005, now + 0.006, {"candidates": 1, "threshold": 0.95}),
    )
    spans.note_lookup(timeline, now, now + 0.006, Miss("veto-number", steps, similarity=0.97))
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
        inside = name in ("cache.exact", "cache.embed", "cache.search", "cache.accept")
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


@pytest.mark.parametrize("status", [500, 502, 504])
async def test_a_failed_request_is_kept_whatever_the_sampling(
    start: Start, collector: Collector, status: int
) -> None:
    telemetry = start(collector.endpoint, TRACES_SAMPLER="always_off")
    timeline = answered(telemetry, status=status)
    found = sent(telemetry, collector)
    assert set(found) == {CHAT, "auth.authenticate"}
    assert found[CHAT].status.code == Status.STATUS_CODE_ERROR
    assert timeline.traceparent(5).endswith("-00"), "the backend was told that it is not sampled"
    assert {received.attributes.get("echogate.trace.kept") for received in collector.spans} == {None, "tail"}


async def test_a_stream_that_broke_is_a_failed_request(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint, TRACES_SAMPLER="always_off")
    timeline = telemetry.begin(CHAT, [])
    timeline.error_type = "upstream_error"
    timeline.finish(200)
    telemetry.record(timeline)
    assert sent(telemetry, collector)[CHAT].status.code == Status.STATUS_CODE_ERROR


async def test_a_slow_request_is_kept_whatever_the_sampling(start: Start, collector: Collector) -> None:
    settings = Settings.model_validate({"telemetry": {"slow_ms": 0.000001}})
    telemetry = start(collector.endpoint, settings=settings, TRACES_SAMPLER="always_off")
    answered(telemetry)
    assert sent(telemetry, collector)[CHAT].status.code == Status.STATUS_CODE_UNSET


async def test_a_caller_that_leaves_is_not_an_error(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    answered(telemetry, status=499)
    assert sent(telemetry, collector)[CHAT].status.code == Status.STATUS_CODE_UNSET
    attributes = next(one.attributes for one in collector.spans if one.span.name == CHAT)
    assert attributes["echogate.outcome"] == "client_closed"
    assert attributes["http.response.status_code"] == 499


async def test_a_request_is_recorded_once(start: Start, collector: Collector) -> None:
    telemetry = start(collector.endpoint)
    timeline = answered(telemetry)
    timeline.finish(500)
    telemetry.record(timeline)
    telemetry.shutdown(5.0)
    assert len(collector.spans) == 2
    assert timeline.status == 200


@pytest.mark.parametrize("sampler", ["always_on", "always_off"])
async def test_what_ends_after_the_request_still_joins_its_trace(
    start: Start, collector: Collector, sampler: str
) -> None:
    telemetry = start(collector.endpoint, TRACES_SAMPLER=sampler)
    timeline = answered(telemetry, status=500)
    spans.note_store(timeline, time.monotonic(), time.monotonic(), is_stored=True, reason="stored")
    telemetry.emit_late(timeline)
    assert sent(telemetry, collector)["cache.store"].parent_span_id == timeline.root_span_id.to_bytes(
        8, "big"
    )


async def test_late_notes_of_a_running_unsampled_request_wait_for_its_end(
    start: Start, collector: Collector
) -> None:
    telemetry = start(collector.endpoint, TRACES_SAMPLER="always_off")
    timeline = telemetry.begin(CHAT, [])
    timeline.note("cache.store", timeline.started, timeline.started)
    telemetry.emit_late(timeline)
    timeline.finish(500)
    telemetry.record(timeline)
    assert set(sent(telemetry, collector)) == {CHAT, "cache.store"}


async def test_finished_parts_of_a_long_request_are_sent_early(
    start: Start, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.telemetry._FLUSH_EARLY_AFTER_S", 0.02)
    telemetry = start(collector.endpoint, BSP_SCHEDULE_DELAY="10")
    timeline = telemetry.begin(CHAT, [])
    timeline.note("auth.authenticate", timeline.started, timeline.started)
    await asyncio.to_thread(collector.wait_for, 1)
    assert [received.span.name for received in collector.spans] == ["auth.authenticate"]
    timeline.finish(200)
    telemetry.record(timeline)
    telemetry.shutdown(5.0)
    assert [received.span.name for received in collector.spans] == ["auth.authenticate", CHAT]


@pytest.mark.parametrize(
    "otel", [{"SDK_DISABLED": "true"}, {"TRACES_EXPORTER": "none"}], ids=["disabled", "no exporter"]
)
async def test_switched_off_it_sends_nothing(
    start: Start, collector: Collector, otel: dict[str, str]
) -> None:
    telemetry = start(collector.endpoint, **otel)
    timeline = answered(telemetry, status=500)
    telemetry.shutdown(1.0)
    assert collector.requests == []
    assert len(timeline.trace_id) == 32


async def test_each_worker_is_an_instance_of_the_service(start: Start, collector: Collector) -> None:
    first, second = start(collector.endpoint, worker=0), start(None, worker=1)
    for telemetry in (first, second):
        answered(telemetry)
        telemetry.shutdown(5.0)
    resources = [received.resource for received in collector.spans]
    assert {resource["service.name"] for resource in resources} == {"echogate"}
    assert len({resource["service.instance.id"] for resource in resources}) == 2
    assert all("service.version" in resource for resource in resources)


async def test_the_service_can_be_named(start: Start, collector: Collector) -> None:
    telemetry = start(
        collector.endpoint, SERVICE_NAME="team-gateway", RESOURCE_ATTRIBUTES="deployment.environment=test"
    )
    answered(telemetry)
    telemetry.shutdown(5.0)
    resource = collector.spans[0].resource
    assert (resource["service.name"], resource["deployment.environment"]) == ("team-gateway", "test")


async def test_ids_are_made_up_front_and_differ(start: Start) -> None:
    telemetry = start(None)
    timeline = telemetry.begin(CHAT, [(b"x-request-id", b"mine")])
    ids = {timeline.root_span_id, *(timeline.new_span_id() for _ in range(1000))}
    assert (len(ids), 0 in ids, max(ids) < 1 << 64) == (1001, False, True)
    assert timeline.client_request_id == "mine"
    assert timeline.request_id.startswith("req_")
    assert timeline.request_id != telemetry.begin(CHAT, []).request_id


def test_a_request_is_one_line_of_json() -> None:
    stream = io.BytesIO()
    timeline = Timeline(CHAT, trace_id=int(TRACE, 16), is_sampled=True)
    timeline.model, timeline.input_tokens, timeline.output_tokens = "m", 3, 7
    timeline.cache_outcome = "HIT-EXACT"
    timeline.finish(200)
    RequestLog(stream).write(timeline)
    (line,) = stream.getvalue().splitlines()
    told = msgspec.json.decode(line)
    assert (told["trace_id"], told["request_id"], told["model"]) == (TRACE, timeline.request_id, "m")
    assert (told["status"], told["input_tokens"], told["output_tokens"], told["cache"]) == (
        200,
        3,
        7,
        "HIT-EXACT",
    )
    assert told["latency_ms"] >= 0
    assert told["span_id"] == f"{timeline.root_span_id:016x}"


@pytest.mark.parametrize(("status", "level"), [(200, "info"), (404, "info"), (499, "info"), (500, "error")])
def test_only_failures_of_ours_are_logged_as_errors(status: int, level: str) -> None:
    stream = io.BytesIO()
    timeline = Timeline(CHAT, trace_id=1, is_sampled=False)
    timeline.finish(status)
    RequestLog(stream).write(timeline)
    assert msgspec.json.decode(stream.getvalue())["level"] == level
