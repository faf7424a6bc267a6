"""Shows how namespaces stand as Prometheus metrics. Which ones is the report's to tell: tenants are no labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cache import Books

from ..telemetry import metrics_table as table


class EvidenceMetrics(Collector):
    """Registers itself; read whenever the registry's numbers are."""

    def __init__(self, books: Books, registry: CollectorRegistry) -> None:
        self._books = books
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        alarms = CounterMetricFamily(table.DRIFT_ALARMS.name, table.DRIFT_ALARMS.meaning)
        alarms.add_metric([], self._books.drift_alarms)
        namespaces = GaugeMetricFamily(
            table.NAMESPACES.name, table.NAMESPACES.meaning, labels=table.NAMESPACES.labels
        )
        known = self._books.known()
        counts = Counter((standing.state, standing.evidence) for standing in known)
        for (state, evidence), count in counts.items():
            namespaces.add_metric([state, evidence], count)
        divergence = GaugeMetricFamily(table.DRIFT.name, table.DRIFT.meaning)
        divergence.add_metric([], max((standing.divergence for standing in known), default=0.0))
        return [alarms, namespaces, divergence]
