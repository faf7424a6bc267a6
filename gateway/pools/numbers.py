"""A worker's numbers about its pools, read off them whenever numbers are asked for."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backends import Pools, Version, VersionCounts

from ..telemetry import metrics_table as table
from ..telemetry.metrics import Histograms


class PoolMetrics(Collector):
    """Registers itself. Gauges of several workers are added up: two with an open breaker make 2."""

    def __init__(self, pools: Pools, registry: CollectorRegistry) -> None:
        self._pools = pools
        registry.register(self)
        self._recoveries = Histograms(
            table.RECOVERY, registry
        )  # after it: what it adds is read in the same round

    def collect(self) -> Iterable[Metric]:
        for recovery in self._pools.take_recoveries():
            self._recoveries.add(recovery.cause, seconds=recovery.seconds)
        breaker = GaugeMetricFamily(
            table.BREAKER_OPEN.name, table.BREAKER_OPEN.meaning, labels=table.BREAKER_OPEN.labels
        )
        usable = GaugeMetricFamily(
            table.BACKEND_USABLE.name, table.BACKEND_USABLE.meaning, labels=table.BACKEND_USABLE.labels
        )
        ejections = CounterMetricFamily(
            table.EJECTIONS.name, table.EJECTIONS.meaning, labels=table.EJECTIONS.labels
        )
        for member in self._pools.members():
            breaker.add_metric([member.member], float(member.breaker != "closed"))
            usable.add_metric([member.member], float(member.state == "active" and member.standing == "in"))
            ejections.add_metric([member.member], member.ejections)
        return [breaker, usable, ejections, self._versions()]

    def _versions(self) -> Metric:
        family = CounterMetricFamily(
            table.VERSION_ATTEMPTS.name, table.VERSION_ATTEMPTS.meaning, labels=table.VERSION_ATTEMPTS.labels
        )
        added: dict[tuple[str, str], VersionCounts] = {}
        for version, counts in self._pools.version_counts().items():
            label = version.model, _revision(version)
            before = added.get(label)
            added[label] = counts if before is None else _sum(before, counts)
        for (model, revision), counts in added.items():
            for outcome in ("answered", "failed", "abandoned"):
                family.add_metric([model, revision, outcome], getattr(counts, outcome))
        return family


def _revision(version: Version) -> str:
    """Revisions that stand in until a server has said what it runs are another one each time: one label for all."""
    return "unknown" if version.is_guessed and version.revision.startswith("unknown-") else version.revision


def _sum(one: VersionCounts, other: VersionCounts) -> VersionCounts:
    return VersionCounts(
        answered=one.answered + other.answered,
        failed=one.failed + other.failed,
        abandoned=one.abandoned + other.abandoned,
    )
