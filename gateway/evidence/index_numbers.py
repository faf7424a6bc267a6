"""Shows what a worker's index holds and how well it finds, as Prometheus metrics."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from cache import IndexState

from ..telemetry import metrics_table as table


def index_numbers(state: IndexState) -> Iterable[Metric]:
    yield _gauge(table.INDEX_VECTORS, state.vectors)
    yield _gauge(table.INDEX_BYTES, state.bytes)
    yield _gauge(table.INDEX_WAITING, state.waiting)
    if state.recall is not None:
        yield _gauge(table.INDEX_RECALL, state.recall)
    clusters = GaugeMetricFamily(table.INDEX_CLUSTER.name, table.INDEX_CLUSTER.meaning, labels=("rank",))
    for rank, size in enumerate(state.largest_clusters, 1):
        clusters.add_metric([str(rank)], size)
    yield clusters
    yield _counter(table.INDEX_REBUILDS, built=state.rebuilds, failed=state.failures)
    yield _counter(table.INDEX_SPACES, evicted=state.evicted, reloaded=state.reloaded)


def _gauge(fact: table.MetricFact, value: float) -> Metric:
    return GaugeMetricFamily(fact.name, fact.meaning, value=value)


def _counter(fact: table.MetricFact, **outcomes: int) -> Metric:
    counter = CounterMetricFamily(fact.name, fact.meaning, labels=fact.labels)
    for outcome, count in outcomes.items():
        counter.add_metric([outcome], count)
    return counter
