"""What the index tells of itself, as metrics and in the span of a search."""

from __future__ import annotations

import pytest
from prometheus_client.core import Metric

from cache import IndexState
from gateway.evidence.index_numbers import index_numbers
from gateway.telemetry.metrics_table import METRICS
from tests.cache.prepared import prepared_model
from tests.collector import attributes, collecting
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream

STATE = IndexState(
    spaces=3,
    vectors=30_000,
    bytes=5_000_000,
    indexes=2,
    clustered=1,
    waiting=4,
    rebuilds=5,
    failures=1,
    evicted=6,
    reloaded=2,
    recall=0.995,
    largest_clusters=(90, 70),
)


def told(metrics: list[Metric]) -> dict[str, float]:
    return {
        f"{sample.name} {' '.join(sample.labels.values())}".strip(): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def test_the_numbers_are_those_of_the_index() -> None:
    assert told(list(index_numbers(STATE))) == {
        "echogate_index_vectors": 30_000,
        "echogate_index_bytes": 5_000_000,
        "echogate_index_waiting": 4,
        "echogate_index_recall_ratio": 0.995,
        "echogate_index_cluster_vectors 1": 90,
        "echogate_index_cluster_vectors 2": 70,
        "echogate_index_rebuilds_total built": 5,
        "echogate_index_rebuilds_total failed": 1,
        "echogate_index_spaces_total evicted": 6,
        "echogate_index_spaces_total reloaded": 2,
    }


def test_all_of_them_are_in_the_table() -> None:
    names = {fact.name.removesuffix("_total") for fact in METRICS}
    assert {metric.name for metric in index_numbers(STATE)} <= names


async def test_a_search_names_the_cluster_of_the_nearest(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = {"embedder": {"model": str(prepared_model())}, "semantic_deadline_ms": 5000}
    async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
        async with running_gateway(upstream, cache=cache) as gateway:
            await gateway.chat("How do I boil an egg?")
            await gateway.idle()
            near = await gateway.chat("How can I boil an egg?")
            families = gateway.plane.metrics.snapshot().families
        trace = await collector.trace(near.headers["x-trace-id"], spans=7)
    told_of = attributes(trace["cache.search"])
    assert (told_of["echogate.cache.cluster"], told_of["echogate.cache.neighbours"]) == ("cluster_0", 1)
    (vectors,) = [family for family in families if family.name == "echogate_index_vectors"]
    assert [sample.value for sample in vectors.samples] == [1]
