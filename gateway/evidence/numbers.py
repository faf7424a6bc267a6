"""Shows audits, and how namespaces stand, as Prometheus metrics. Which ones is the report's to tell: tenants are no
labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from cache import Audits

from ..telemetry import metrics_table as table


class EvidenceMetrics(Collector):
    """Registers itself; read whenever the registry's numbers are."""

    def __init__(self, audits: Audits, registry: CollectorRegistry) -> None:
        self._audits = audits
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        books, counts = self._audits.books, self._audits.counts
        audits = CounterMetricFamily(table.AUDITS.name, table.AUDITS.meaning, labels=table.AUDITS.labels)
        for outcome, count in (
            ("judged", counts.judged),
            ("unjudged", counts.unjudged),
            ("dropped", counts.dropped),
        ):
            audits.add_metric([outcome], count)
        alarms = CounterMetricFamily(table.DRIFT_ALARMS.name, table.DRIFT_ALARMS.meaning)
        alarms.add_metric([], books.drift_alarms)
        namespaces = GaugeMetricFamily(
            table.NAMESPACES.name, table.NAMESPACES.meaning, labels=table.NAMESPACES.labels
        )
        known = books.known()
        stands = Counter((standing.state, standing.evidence) for standing in known)
        for (state, evidence), count in stands.items():
            namespaces.add_metric([state, evidence], count)
        divergence = GaugeMetricFamily(table.DRIFT.name, table.DRIFT.meaning)
        divergence.add_metric([], max((standing.divergence for standing in known), default=0.0))
        return [audits, alarms, namespaces, divergence]
