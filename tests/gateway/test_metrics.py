"""What a finished request adds, and how the numbers of several workers become one page."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

from gateway.telemetry.metrics import Metrics
from gateway.telemetry.metrics_merge import Snapshot, merge, render, totals_only
from gateway.telemetry.timeline import Timeline


def finished(status: int = 200, **facts: object) -> Timeline:
    timeline = Timeline("POST /v1/chat/completions", trace_id=0xABC, is_sampled=True)
    timeline.endpoint, timeline.model = "/v1/chat/completions", "m"
    for name, value in facts.items():
        setattr(timeline, name, value)
    timeline.finish(status)
    return timeline


def counted(*timelines: Timeline, exemplar: dict[str, str] | None = None) -> Snapshot:
    metrics = Metrics(["m"])
    for timeline in timelines:
        metrics.count(timeline, exemplar=exemplar)
    return metrics.snapshot()


def value(snapshot: Snapshot, name: str, **labels: str) -> float | None:
    for family in snapshot.families:
        for sample in family.samples:
            if sample.name == name and dict(sample.labels) == labels:
                return sample.value
    return None


def requests(snapshot: Snapshot, **labels: str) -> float | None:
    full = {"endpoint": "/v1/chat/completions", "model": "m", "status_class": "2xx", "cache": "none"} | labels
    return value(snapshot, "echogate_requests_total", **full)


@pytest.mark.parametrize(
    ("status", "error", "status_class"),
    [
        (200, None, "2xx"),
        (404, "model_not_found", "4xx"),
        (429, None, "4xx"),
        (499, None, "closed"),
        (502, None, "5xx"),
        (200, "upstream_error", "error"),
    ],
)
def test_requests_are_counted_by_how_they_ended(status: int, error: str | None, status_class: str) -> None:
    assert requests(counted(finished(status, error_type=error)), status_class=status_class) == 1


@pytest.mark.parametrize("model", [None, "not-one-of-ours"])
def test_a_model_that_no_pool_serves_is_other(model: str | None) -> None:
    assert requests(counted(finished(model=model)), model="other") == 1


@pytest.mark.parametrize(
    ("outcome", "reason", "word"),
    [
        ("HIT-EXACT", None, "hit-exact"),
        ("HIT-SEMANTIC", "guarded", "hit-semantic"),
        ("MISS", "absent", "miss"),
        ("MISS", "shared", "shared"),
        ("BYPASS", "off", "bypass"),
        (None, None, "none"),
    ],
)
def test_hits_misses_and_shared_answers_are_told_apart(
    outcome: str | None, reason: str | None, word: str
) -> None:
    snapshot = counted(finished(cache_outcome=outcome, cache_reason=reason))
    assert requests(snapshot, cache=word) == 1
    labels = {"endpoint": "/v1/chat/completions", "stream": "false", "cache": word}
    assert value(snapshot, "echogate_request_duration_seconds_count", **labels) == 1


def watch(metrics: Metrics, in_flight: dict[str, int], store_up: dict[str, bool]) -> None:
    metrics.watch(
        in_flight=lambda: in_flight,
        store_up=lambda: store_up,
        limits_shared=lambda: True,
        serves=lambda model: model == "m",
    )


def test_first_token_and_total_time_are_separate_and_labelled_by_stream_and_cache() -> None:
    timeline = finished(is_stream=True, cache_outcome="MISS", output_tokens=11)
    timeline.first_byte_at = timeline.started + 0.1
    timeline.ended = timeline.started + 60.1
    snapshot = counted(timeline)
    labels = {"model": "m", "stream": "true", "cache": "miss"}
    assert value(snapshot, "gen_ai_server_time_to_first_token_seconds_sum", **labels) == pytest.approx(0.1)
    per_token = value(snapshot, "gen_ai_server_time_per_output_token_seconds_sum", model="m", cache="miss")
    assert per_token == pytest.approx(6.0)


@pytest.mark.parametrize(("outcome", "source"), [("HIT-EXACT", "cache"), ("MISS", "backend")])
def test_tokens_are_counted_by_where_the_answer_came_from(outcome: str, source: str) -> None:
    snapshot = counted(finished(cache_outcome=outcome, input_tokens=3, output_tokens=7))
    tokens = [
        value(snapshot, "echogate_tokens_total", direction=direction, model="m", source=source)
        for direction in ("input", "output")
    ]
    assert tokens == [3, 7]


def test_gauges_are_read_when_a_snapshot_is_taken() -> None:
    metrics = Metrics([])
    watch(metrics, {"vllm-1": 2}, {"cache": True})
    snapshot = metrics.snapshot()
    assert value(snapshot, "echogate_backend_in_flight", backend="vllm-1") == 2
    assert value(snapshot, "echogate_store_up", role="cache") == 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_merged_counters_and_histograms_are_the_sum(counts: list[int]) -> None:
    merged = merge([counted(*(finished() for _ in range(count))) for count in counts])
    assert (requests(merged) or 0) == sum(counts)
    labels = {"endpoint": "/v1/chat/completions", "stream": "false", "cache": "none"}
    assert (value(merged, "echogate_request_duration_seconds_bucket", **labels, le="+Inf") or 0) == sum(
        counts
    )


def test_merged_gauges_are_the_sum_but_a_store_is_up_only_if_it_is_everywhere() -> None:
    def worker(in_flight: int, is_up: bool) -> Snapshot:
        metrics = Metrics([])
        watch(metrics, {"b": in_flight}, {"cache": is_up})
        return metrics.snapshot()

    merged = merge([worker(2, True), worker(3, False)])
    assert value(merged, "echogate_backend_in_flight", backend="b") == 5
    assert value(merged, "echogate_store_up", role="cache") == 0


def test_of_a_worker_that_ended_the_totals_stay_and_the_gauges_go() -> None:
    metrics = Metrics(["m"])
    watch(metrics, {"b": 1}, {})
    metrics.count(finished(), exemplar=None)
    left = totals_only(metrics.snapshot())
    assert requests(left) == 1
    assert value(left, "echogate_backend_in_flight", backend="b") is None


def test_the_latest_exemplar_survives_the_merge() -> None:
    older = counted(finished(), exemplar={"trace_id": "older"})
    newer = counted(finished(), exemplar={"trace_id": "newer"})
    page = render(merge([newer, older]), as_openmetrics=True).decode()
    assert 'trace_id="newer"' in page
    assert 'trace_id="older"' not in page


def test_both_forms_of_the_page_can_be_parsed() -> None:
    snapshot = merge([counted(finished(input_tokens=1), exemplar={"trace_id": "a" * 32}), counted()])
    page = render(snapshot, as_openmetrics=True).decode()
    openmetrics = {one.name for one in parse_openmetrics(page)}  # type: ignore[no-untyped-call]  # it has no types
    prometheus = {one.name for one in parse_prometheus(render(snapshot, as_openmetrics=False).decode())}
    assert {"echogate_requests", "echogate_request_duration_seconds"} <= openmetrics & prometheus


def test_a_snapshot_travels_as_json() -> None:
    snapshot = counted(finished(), exemplar={"trace_id": "a" * 32})
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot
