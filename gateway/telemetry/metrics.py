"""Owns this process's metrics: their names, their labels, and what a finished request adds to them.

Labels are of low cardinality: a model that no pool serves counts as "other", tenants and keys are no labels.
Adding up the workers' numbers is telemetry/metrics_merge.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from . import metrics_table as table
from .metrics_merge import Snapshot, take
from .timeline import Timeline

Exemplar = dict[str, str] | None


class Counters:
    """A counter whose labelled children are kept by label values: `labels()` costs more than the counting."""

    def __init__(self, fact: table.MetricFact, registry: CollectorRegistry) -> None:
        self._family = Counter(fact.name, fact.meaning, fact.labels, registry=registry)
        self._children: dict[tuple[str, ...], Counter] = {}

    def add(self, *labels: str, amount: float = 1, exemplar: Exemplar = None) -> None:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._family.labels(*labels) if labels else self._family
        child.inc(amount, exemplar)


class Histograms:
    """Likewise for a histogram of seconds."""

    def __init__(self, fact: table.MetricFact, registry: CollectorRegistry) -> None:
        self._family = Histogram(
            fact.name, fact.meaning, fact.labels, registry=registry, buckets=fact.buckets
        )
        self._children: dict[tuple[str, ...], Histogram] = {}

    def add(self, *labels: str, seconds: float, exemplar: Exemplar = None) -> None:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._family.labels(*labels)
        child.observe(seconds, exemplar)


def gauge(fact: table.MetricFact, registry: CollectorRegistry) -> Gauge:
    return Gauge(fact.name, fact.meaning, fact.labels, registry=registry)


class Metrics:
    """One per worker. `models` are the public names that may stand in a label."""

    def __init__(self, models: Iterable[str]) -> None:
        self._serves: Callable[[str], bool] = frozenset(models).__contains__
        self.registry = CollectorRegistry()
        on = self.registry
        self._requests = Counters(table.REQUESTS, on)
        self._duration = Histograms(table.DURATION, on)
        self._first_token = Histograms(table.FIRST_TOKEN, on)
        self._per_token = Histograms(table.PER_TOKEN, on)
        self._lookups = Counters(table.LOOKUPS, on)
        self._tokens = Counters(table.TOKENS, on)
        self._limited = Counters(table.LIMITED, on)
        self.spans_dropped = Counters(table.SPANS_DROPPED, on)
        self.telemetry_errors = Counters(table.TELEMETRY_ERRORS, on)
        self._in_flight = gauge(table.IN_FLIGHT, on)
        self._store_up = gauge(table.STORE_UP, on)
        self._read_in_flight: Callable[[], Mapping[str, int]] = dict
        self._read_store_up: Callable[[], Mapping[str, bool]] = dict
        self._limits_shared = gauge(table.LIMITS_SHARED, on)
        self._read_limits_shared: Callable[[], bool] = lambda: True

    def watch(
        self,
        *,
        in_flight: Callable[[], Mapping[str, int]],
        store_up: Callable[[], Mapping[str, bool]],
        limits_shared: Callable[[], bool],
        serves: Callable[[str], bool],
    ) -> None:
        """Read the gauges whenever a snapshot is taken: by backend name, by store role, for all limits. `serves` says
        whether a public name may stand in a label."""
        self._read_in_flight = in_flight
        self._read_store_up = store_up
        self._read_limits_shared = limits_shared
        self._serves = serves

    def count(self, timeline: Timeline, *, exemplar: Exemplar) -> None:
        """Add a finished request. `exemplar` names its trace, where that trace is kept."""
        cache = timeline.cache_word
        model = timeline.model if timeline.model and self._serves(timeline.model) else "other"
        stream = "true" if timeline.is_stream else "false"
        self._requests.add(timeline.endpoint, model, _status_class(timeline), cache, exemplar=exemplar)
        self._duration.add(timeline.endpoint, stream, cache, seconds=timeline.duration_s, exemplar=exemplar)
        if timeline.cache_outcome is not None:
            self._lookups.add(timeline.cache_outcome, timeline.cache_reason or "", exemplar=exemplar)
        if timeline.status == 429:
            self._limited.add()
        if timeline.model and timeline.first_byte_at is not None and timeline.ended is not None:
            first = timeline.first_byte_at - timeline.started
            self._first_token.add(model, stream, cache, seconds=first, exemplar=exemplar)
            if timeline.is_stream and timeline.output_tokens is not None and timeline.output_tokens > 1:
                each = (timeline.ended - timeline.first_byte_at) / (timeline.output_tokens - 1)
                self._per_token.add(model, cache, seconds=each, exemplar=exemplar)
        source = "cache" if cache.startswith("hit") else "shared" if cache == "shared" else "backend"
        if timeline.input_tokens:
            self._tokens.add("input", model, source, amount=timeline.input_tokens)
        if timeline.output_tokens:
            self._tokens.add("output", model, source, amount=timeline.output_tokens)

    def snapshot(self) -> Snapshot:
        """This process's numbers now, ready to be sent and merged."""
        self._in_flight.clear()  # backends come and go
        for name, count in self._read_in_flight().items():
            self._in_flight.labels(name).set(count)
        for role, is_up in self._read_store_up().items():
            self._store_up.labels(role).set(is_up)
        self._limits_shared.set(self._read_limits_shared())
        return take(self.registry)


def _status_class(timeline: Timeline) -> str:
    match timeline.outcome:
        case "client_closed":
            return "closed"
        case "error" if timeline.status < 400:
            return "error"
        case _:
            return f"{timeline.status // 100}xx"
