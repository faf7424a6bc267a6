"""The table of metrics: their names, labels and meanings. What adds to them is elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_LATENCY_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2.5)


@dataclass(frozen=True, slots=True)
class MetricFact:
    name: str
    kind: Literal["counter", "histogram", "gauge"]
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


REQUESTS = MetricFact(
    "echogate_requests_total",
    "counter",
    "Finished requests; status_class: 2xx, 4xx, 5xx, error (broken stream), closed (client left)",
    ("endpoint", "model", "status_class", "cache"),
)
DURATION = MetricFact(
    "echogate_request_duration_seconds",
    "histogram",
    "From a request's arrival to the end of its answer",
    ("endpoint", "stream", "cache"),
    _LATENCY_S,
)
FIRST_TOKEN = MetricFact(
    "gen_ai_server_time_to_first_token_seconds",
    "histogram",
    "From a request's arrival to the first content of its answer",
    ("model", "stream", "cache"),
    _LATENCY_S,
)
PER_TOKEN = MetricFact(
    "gen_ai_server_time_per_output_token_seconds",
    "histogram",
    "Time per output token after the first, of streamed answers",
    ("model", "cache"),
    _TOKEN_S,
)
LOOKUPS = MetricFact(
    "echogate_cache_lookups_total", "counter", "Requests by what the cache did", ("outcome", "reason")
)
TOKENS = MetricFact(
    "echogate_tokens_total",
    "counter",
    "Tokens of answered requests, by where the answer came from: backend, cache or shared",
    ("direction", "model", "source"),
)
LIMITED = MetricFact("echogate_limited_total", "counter", "Requests refused by a limit")
IN_FLIGHT = MetricFact(
    "echogate_backend_in_flight", "gauge", "Requests a backend is answering now", ("backend",)
)
STORE_UP = MetricFact(
    "echogate_store_up", "gauge", "1 if every worker reaches the store of this role", ("role",)
)
LIMITS_SHARED = MetricFact(
    "echogate_limits_shared",
    "gauge",
    "1 if every worker decides by the limits that all share, 0 if one decides alone while the store is away",
)
SPANS_DROPPED = MetricFact(
    "echogate_spans_dropped_total", "counter", "Spans that did not reach the collector", ("reason",)
)
TELEMETRY_ERRORS = MetricFact(
    "echogate_telemetry_errors_total", "counter", "Faults inside telemetry that were kept from a request"
)
BREAKER_OPEN = MetricFact(
    "echogate_backend_breaker_open",
    "gauge",
    "Workers whose breaker of this backend is not closed",
    ("backend",),
)
BACKEND_USABLE = MetricFact(
    "echogate_backend_usable", "gauge", "Workers that send requests to this backend", ("backend",)
)
EJECTIONS = MetricFact(
    "echogate_backend_ejections_total",
    "counter",
    "Times a worker stopped asking a backend that failed",
    ("backend",),
)
FOLLOW_LAG = MetricFact(
    "echogate_cache_follow_lag_seconds",
    "gauge",
    "Between what a process stores and this worker's index knowing it; grows while the store does not answer",
    ("worker",),
)
FOLLOW_BEHIND = MetricFact(
    "echogate_cache_follow_items_behind",
    "gauge",
    "Changes that this worker's index did not know when it was last looked",
    ("worker",),
)
SHARDS_REBUILT = MetricFact(
    "echogate_cache_shards_rebuilt_total",
    "counter",
    "Times a worker made a sixteenth of its index from the store; reason: start (no snapshot), behind (changes were "
    "trimmed before they were read) or reset (another store, or an emptied one)",
    ("reason",),
)
SNAPSHOTS = MetricFact(
    "echogate_cache_snapshots_total",
    "counter",
    "Snapshots of the index by what became of them: restored, written, or why not",
    ("outcome",),
)
REEMBED_LEFT = MetricFact(
    "echogate_cache_reembed_left",
    "gauge",
    "Entries still to be looked at by whoever embeds what is kept by another embedder",
)
REEMBEDDED = MetricFact(
    "echogate_cache_reembedded_total",
    "counter",
    "Entries embedded by another embedder; outcome: done, unfit (it cannot read the text) or settled (the old vector "
    "was let go)",
    ("outcome",),
)
INDEX_VECTORS = MetricFact(
    "echogate_index_vectors", "gauge", "Vectors in the index of the worker that has most"
)
INDEX_BYTES = MetricFact(
    "echogate_index_bytes",
    "gauge",
    "What the workers' vectors take, about; cache.index.memory_mib bounds each",
)
INDEX_RECALL = MetricFact(
    "echogate_index_recall_ratio",
    "gauge",
    "Share of searches in clusters that found the true nearest, of those lately compared with all; of the worst worker",
)
INDEX_CLUSTER = MetricFact(
    "echogate_index_cluster_vectors",
    "gauge",
    "Vectors in the largest clusters of a worker's index, by rank",
    ("rank",),
)
INDEX_REBUILDS = MetricFact(
    "echogate_index_rebuilds_total",
    "counter",
    "Times a worker drew the clusters of a partition; outcome: built or failed",
    ("outcome",),
)
INDEX_SPACES = MetricFact(
    "echogate_index_spaces_total",
    "counter",
    "Partitions that left an index to make room (evicted), and that came back when they were asked for (reloaded)",
    ("outcome",),
)
INDEX_WAITING = MetricFact(
    "echogate_index_waiting", "gauge", "Changes that are known to a worker and not yet in its index"
)
SEAL_REFUSED = MetricFact(
    "echogate_cache_seal_refused_total",
    "counter",
    "Records of the cache store that could not be opened: sealed with a key that is not known here, or altered",
)
AUDITS = MetricFact(
    "echogate_cache_audits_total",
    "counter",
    "Audits that were drawn; outcome: judged, unjudged (the judge could not tell) or dropped (no room, or no more to "
    "spend)",
    ("outcome",),
)
NAMESPACES = MetricFact(
    "echogate_cache_namespaces",
    "gauge",
    "Cache namespaces, by how they stand and whose audits their score was learned from: own, borrowed or none",
    ("state", "evidence"),
)
DRIFT = MetricFact(
    "echogate_cache_drift_divergence",
    "gauge",
    "How far the questions of a namespace have changed, of the one that changed most; 0.12 raises an alarm",
)
DRIFT_ALARMS = MetricFact(
    "echogate_cache_drift_alarms_total",
    "counter",
    "Times the questions of a namespace had changed so much that its older audits count no more",
)
VERSION_ATTEMPTS = MetricFact(
    "echogate_version_attempts_total",
    "counter",
    "Attempts at backends by what they run; outcome: answered, failed (by the backend), abandoned (by the caller)",
    ("model", "revision", "outcome"),
)
RECOVERY = MetricFact(
    "echogate_recovery_seconds",
    "histogram",
    "How long trouble lasted; cause: failure (breaker open), or what a backend was drained for, until its last "
    "request of a worker had ended",
    ("cause",),
    _LATENCY_S,
)
SCRAPE_AGE = MetricFact(
    "echogate_backend_scrape_age_seconds", "gauge", "Since a backend last said how busy it is", ("backend",)
)
SIGNAL_MISSING = MetricFact(
    "echogate_backend_signal_missing",
    "gauge",
    "1 for each metric that servers of this kind have and this one lacks",
    ("backend", "signal"),
)
ENGINE_REQUESTS = MetricFact(
    "echogate_backend_engine_requests",
    "gauge",
    "Requests by the backend's own count, other clients' included; state: running or waiting",
    ("backend", "state"),
)
KV_USAGE = MetricFact(
    "echogate_backend_kv_usage_ratio",
    "gauge",
    "How full the memory of the backend's fullest engine is",
    ("backend",),
)
RELOADS = MetricFact(
    "echogate_config_reloads_total",
    "counter",
    "Changes of the configuration file; outcome: applied or refused",
    ("outcome",),
)
WORKERS = MetricFact("echogate_workers", "gauge", "Workers that serve now")
RESTARTS = MetricFact("echogate_worker_restarts_total", "counter", "Workers that ended and were replaced")

METRICS = (
    REQUESTS,
    DURATION,
    FIRST_TOKEN,
    PER_TOKEN,
    LOOKUPS,
    TOKENS,
    LIMITED,
    IN_FLIGHT,
    STORE_UP,
    LIMITS_SHARED,
    SPANS_DROPPED,
    TELEMETRY_ERRORS,
    BREAKER_OPEN,
    BACKEND_USABLE,
    EJECTIONS,
    VERSION_ATTEMPTS,
    FOLLOW_LAG,
    FOLLOW_BEHIND,
    SHARDS_REBUILT,
    SNAPSHOTS,
    REEMBED_LEFT,
    REEMBEDDED,
    INDEX_VECTORS,
    INDEX_BYTES,
    INDEX_RECALL,
    INDEX_CLUSTER,
    INDEX_REBUILDS,
    INDEX_SPACES,
    INDEX_WAITING,
    SEAL_REFUSED,
    AUDITS,
    NAMESPACES,
    DRIFT,
    DRIFT_ALARMS,
    RECOVERY,
    SCRAPE_AGE,
    SIGNAL_MISSING,
    ENGINE_REQUESTS,
    KV_USAGE,
    RELOADS,
    WORKERS,
    RESTARTS,
)
