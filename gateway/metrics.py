"""Owns this process's metrics: their names, their labels, and what a finished request adds to them.

Labels are of low cardinality: a model that no pool serves counts as "other", tenants and keys are no labels.
Adding up the workers' numbers is metrics_merge.py's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from .metrics_merge import Snapshot, take
from .timeline import Timeline

_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)

Exemplar = dict[str, str] | None


class Counters:
    """A counter whose labelled children are kept by label values: `labels()` costs more than the counting."""

    def __init__(self, name: str, meaning: str, labels: tuple[str, ...], registry: CollectorRegistry) -> None:
        self._family = Counter(name, meaning, labels, registry=registry)
        self._children: dict[tuple[str, ...], Counter] = {}

    def add(self, *labels: str, amount: float = 1, exemplar: Exemplar = None) -> None:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._family.labels(*labels)
        child.inc(amount, exemplar)


class Histograms:
    """Likewise for a histogram of seconds."""

    def __init__(
        self,
        name: str,
        meaning: str,
        labels: tuple[str, ...],
        registry: CollectorRegistry,
        *,
        buckets: tuple[float, ...],
    ) -> None:
        self._family = Histogram(name, meaning, labels, registry=registry, buckets=buckets)
        self._children: dict[tuple[str, ...], Histogram] = {}

    def add(self, *labels: str, seconds: float, exemplar: Exemplar = None) -> None:
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._family.labels(*labels)
        child.observe(seconds, exemplar)


class Metrics:
    """One per process. `models` are the public names that may stand in a label."""

    def __init__(self, models: Iterable[str]) -> None:
        self._models = frozenset(models)
        self.registry = CollectorRegistry()
        on = self.registry
        self.requests = Counters(
            "echogate_requests",
            "Finished requests; status_class: 2xx, 4xx, 5xx, error (broken stream), closed (client left)",
            ("endpoint", "model", "status_class", "cache"),
            on,
        )
        self.duration = Histograms(
            "echogate_request_duration_seconds",
            "From a request's arrival to the end of its answer",
            ("endpoint", "stream", "cache"),
            on,
            buckets=_LATENCY_S,
        )
        self.first_token = Histograms(
            "gen_ai_server_time_to_first_token_seconds",
            "From a request's arrival to the first content of its answer",
            ("model", "stream", "cache"),
            on,
            buckets=_LATENCY_S,
        )
        self.per_token = Histograms(
            "gen_ai_server_time_per_output_token_seconds",
            "Time per output token after the first, of streamed answers",
            ("model", "cache"),
            on,
            buckets=_TOKEN_S,
        )
        self.lookups = Counters(
            "echogate_cache_lookups", "Requests by what the cache did", ("outcome", "reason"), on
        )
        self.tokens = Counters(
            "echogate_tokens",
            "Tokens of answered requests, by where the answer came from: backend, cache or shared",
            ("direction", "model", "source"),
            on,
        )
        self.limited = Counters("echogate_limited", "Requests refused by a limit", (), on)
        self.spans_dropped = Counters(
            "echogate_spans_dropped", "Spans that did not reach the collector", ("reason",), on
        )
        self.telemetry_errors = Counters(
            "echogate_telemetry_errors", "Faults inside telemetry that were kept from a request", (), on
        )
        self._in_flight = Gauge(
            "echogate_backend_in_flight", "Requests a backend is answering now", ("backend",), registry=on
        )
        self._store_up = Gauge(
            "echogate_store_up", "1 if every worker reaches the store of this role", ("role",), registry=on
        )
        self._read_in_flight: Callable[[], Mapping[str, int]] = dict
        self._read_store_up: Callable[[], Mapping[str, bool]] = dict

    def watch(
        self, *, in_flight: Callable[[], Mapping[str, int]], store_up: Callable[[], Mapping[str, bool]]
    ) -> None:
        """Read these gauges whenever a snapshot is taken: by backend name, by store role."""
        self._read_in_flight = in_flight
        self._read_store_up = store_up

    def count(self, timeline: Timeline, *, exemplar: Exemplar) -> None:
        """Add a finished request. `exemplar` names its trace, where that trace is kept."""
        cache = timeline.cache_word
        model = timeline.model if timeline.model in self._models else "other"
        stream = "true" if timeline.is_stream else "false"
        self.requests.add(timeline.endpoint, model, _status_class(timeline), cache, exemplar=exemplar)
        self.duration.add(timeline.endpoint, stream, cache, seconds=timeline.duration_s, exemplar=exemplar)
        if timeline.cache_outcome is not None:
            self.lookups.add(timeline.cache_outcome, timeline.cache_reason or "", exemplar=exemplar)
        if timeline.status == 429:
            self.limited.add()
        if timeline.first_byte_at is not None and timeline.ended is not None:
            first = timeline.first_byte_at - timeline.started
            self.first_token.add(model, stream, cache, seconds=first, exemplar=exemplar)
            if timeline.is_stream and timeline.output_tokens is not None and timeline.output_tokens > 1:
                each = (timeline.ended - timeline.first_byte_at) / (timeline.output_tokens - 1)
                self.per_token.add(model, cache, seconds=each, exemplar=exemplar)
        source = "cache" if cache.startswith("hit") else "shared" if cache == "shared" else "backend"
        if timeline.input_tokens:
            self.tokens.add("input", model, source, amount=timeline.input_tokens)
        if timeline.output_tokens:
            self.tokens.add("output", model, source, amount=timeline.output_tokens)

    def snapshot(self) -> Snapshot:
        """This process's numbers now, ready to be sent and merged."""
        for name, count in self._read_in_flight().items():
            self._in_flight.labels(name).set(count)
        for role, is_up in self._read_store_up().items():
            self._store_up.labels(role).set(is_up)
        return take(self.registry)


def _status_class(timeline: Timeline) -> str:
    match timeline.outcome:
        case "client_closed":
            return "closed"
        case "error" if timeline.status < 400:
            return "error"
        case _:
            return f"{timeline.status // 100}xx"
