"""Decides how the numbers of several processes become one page: snapshots in, exposition text out.

Counters and histograms are summed; gauges too, but for those that say "everywhere", where the least counts, and those
of what all workers know, where the most does. The totals of a process that ended stay, so that no counter ever goes
down. Prometheus' own multiprocess mode would lose the exemplars.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from prometheus_client import CollectorRegistry, exposition
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar

LEAST = frozenset({"echogate_store_up", "echogate_limits_shared", "echogate_index_recall_ratio"})
MOST = frozenset(
    {
        "echogate_cache_namespaces",
        "echogate_cache_drift_divergence",
        "echogate_index_vectors",
        "echogate_index_cluster_vectors",
    }
)

OPENMETRICS_TYPE = openmetrics.CONTENT_TYPE_LATEST
PROMETHEUS_TYPE = exposition.CONTENT_TYPE_LATEST


class ExemplarFact(msgspec.Struct, frozen=True, array_like=True):
    labels: dict[str, str]
    value: float
    at_s: float | None


class SampleFact(msgspec.Struct, frozen=True, array_like=True):
    name: str
    labels: tuple[tuple[str, str], ...]
    value: float
    exemplar: ExemplarFact | None = None


class FamilyFact(msgspec.Struct, frozen=True, array_like=True):
    name: str
    kind: str
    meaning: str
    samples: list[SampleFact]


class Snapshot(msgspec.Struct, frozen=True):
    """All numbers of one process at one moment."""

    families: list[FamilyFact] = []


def take(registry: CollectorRegistry) -> Snapshot:
    return Snapshot([_family(metric) for metric in registry.collect()])


def _family(metric: Metric) -> FamilyFact:
    samples = [
        SampleFact(
            sample.name, tuple(sorted(sample.labels.items())), sample.value, _exemplar(sample.exemplar)
        )
        for sample in metric.samples
        if not sample.name.endswith("_created")  # of processes that come and go it says nothing
    ]
    return FamilyFact(metric.name, metric.type, metric.documentation, samples)


def _exemplar(exemplar: Exemplar | None) -> ExemplarFact | None:
    if exemplar is None:
        return None
    at_s = exemplar.timestamp
    return ExemplarFact(exemplar.labels, exemplar.value, None if at_s is None else float(at_s))


def merge(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The snapshots as one. The first one's order of families and samples leads."""
    families: dict[str, FamilyFact] = {}
    samples: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], SampleFact]] = {}
    for snapshot in snapshots:
        for family in snapshot.families:
            families.setdefault(family.name, family)
            merged = samples.setdefault(family.name, {})
            for sample in family.samples:
                key = sample.name, sample.labels
                known = merged.get(key)
                merged[key] = sample if known is None else _added(family, known, sample)
    return Snapshot(
        [
            FamilyFact(family.name, family.kind, family.meaning, list(samples[name].values()))
            for name, family in families.items()
        ]
    )


def _added(family: FamilyFact, one: SampleFact, other: SampleFact) -> SampleFact:
    value = one.value + other.value
    if family.name in LEAST or family.name in MOST:
        value = (min if family.name in LEAST else max)(one.value, other.value)
    exemplars = [sample.exemplar for sample in (one, other) if sample.exemplar is not None]
    latest = max(exemplars, key=lambda exemplar: exemplar.at_s or 0.0, default=None)
    return SampleFact(one.name, one.labels, value, latest)


def totals_only(snapshot: Snapshot) -> Snapshot:
    """What stays of a process that ended: what it counted, not what it held."""
    return Snapshot([family for family in snapshot.families if family.kind != "gauge"])


def render(snapshot: Snapshot, *, as_openmetrics: bool) -> bytes:
    """Exposition text; exemplars are shown in the OpenMetrics form only."""
    registry = CollectorRegistry()
    registry.register(_Families(snapshot))
    write = openmetrics.generate_latest if as_openmetrics else exposition.generate_latest
    return write(registry)


class _Families(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterable[Metric]:
        for family in self._snapshot.families:
            metric = Metric(family.name, family.meaning, family.kind)
            for sample in family.samples:
                exemplar = sample.exemplar
                metric.add_sample(
                    sample.name,
                    dict(sample.labels),
                    sample.value,
                    exemplar=Exemplar(exemplar.labels, exemplar.value, exemplar.at_s) if exemplar else None,
                )
            yield metric
