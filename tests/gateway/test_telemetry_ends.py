"""What becomes of a request's record: kept or not, sent early or late, by which worker, and its line in the log."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from gateway.settings.reading import Settings
from gateway.telemetry import spans
from gateway.telemetry.logs import RequestLog
from gateway.telemetry.timeline import Timeline
from tests.valkey import eventually

from .otlp import Collector, http_collector
from .recorded import CHAT, TRACE, Start, answered, sent, starting


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    with starting(monkeypatch) as start:
        yield start


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


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
    monkeypatch.setattr("gateway.telemetry.telemetry._FLUSH_EARLY_AFTER_S", 0.02)
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


async def test_a_request_is_one_line_of_json() -> None:
    stream = io.BytesIO()
    timeline = Timeline(CHAT, trace_id=int(TRACE, 16), is_sampled=True)
    timeline.model, timeline.input_tokens, timeline.output_tokens = "m", 3, 7
    timeline.cache_outcome = "HIT-EXACT"
    timeline.finish(200)
    log = RequestLog(stream)
    log.write(timeline)
    log.close()
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
async def test_only_failures_of_ours_are_logged_as_errors(status: int, level: str) -> None:
    stream = io.BytesIO()
    timeline = Timeline(CHAT, trace_id=1, is_sampled=False)
    timeline.finish(status)
    log = RequestLog(stream)
    log.write(timeline)
    log.close()
    assert msgspec.json.decode(stream.getvalue())["level"] == level


async def test_the_lines_of_a_moment_leave_in_one_write() -> None:
    class Counting(io.BytesIO):
        writes = 0

        def write(self, data: Any) -> int:
            self.writes += 1
            return super().write(data)

    stream = Counting()
    log = RequestLog(stream)
    for _ in range(50):
        timeline = Timeline(CHAT, trace_id=1, is_sampled=False)
        timeline.finish(200)
        log.write(timeline)
    await eventually(lambda: stream.writes > 0)
    assert (stream.writes, len(stream.getvalue().splitlines())) == (1, 50)
