"""What each kind of model server calls its signals; pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .prometheus import Total, read

# Where counts of several engines are added, memory is as full as that of the fullest.
_OF_THE_FULLEST = frozenset({"kv_usage"})


@dataclass(frozen=True, slots=True)
class Dialect:
    """`names` gives for a field of `Signals` the metrics that may hold it, the present name first. `expected` are the
    fields that every server of this kind has."""

    name: str
    prefix: str
    names: Mapping[str, tuple[str, ...]]
    expected: frozenset[str]


@dataclass(frozen=True, slots=True)
class Reading:
    """What a scrape said: fields of `Signals` by name."""

    dialect: str
    values: Mapping[str, float] = field(default_factory=dict)
    missing: tuple[str, ...] = ()


VLLM = Dialect(
    "vllm",
    "vllm:",
    {
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "kv_usage": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        "preemptions_total": ("vllm:num_preemptions_total",),
        "prefix_hits_total": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
        "prefix_queries_total": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
        "queue_s_total": ("vllm:request_queue_time_seconds_sum",),
        "prefill_s_total": ("vllm:request_prefill_time_seconds_sum",),
        "generated_tokens_total": ("vllm:generation_tokens_total",),
    },
    frozenset({"running", "waiting", "kv_usage", "preemptions_total", "generated_tokens_total"}),
)
LLAMA_CPP = Dialect(
    "llama.cpp",
    "llamacpp:",
    {
        "running": ("llamacpp:requests_processing",),
        "waiting": ("llamacpp:requests_deferred",),
        "kv_usage": ("llamacpp:kv_cache_usage_ratio",),
        "prefill_s_total": ("llamacpp:prompt_seconds_total",),
        "generated_tokens_total": ("llamacpp:tokens_predicted_total",),
    },
    frozenset({"running", "waiting"}),
)
SGLANG = Dialect(
    "sglang",
    "sglang:",
    {
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "kv_usage": ("sglang:token_usage",),
        "generated_tokens_total": ("sglang:generation_tokens_total",),
    },
    frozenset({"running", "waiting", "kv_usage"}),
)
DIALECTS = (VLLM, LLAMA_CPP, SGLANG)


def read_metrics(text: str) -> Reading | None:
    """The signals in a `/metrics` page; None if it is of no known kind."""
    dialect = next((dialect for dialect in DIALECTS if dialect.prefix in text), None)
    if dialect is None:
        return None
    totals = read(text, (name for names in dialect.names.values() for name in names))
    values: dict[str, float] = {}
    missing: list[str] = []
    for signal, names in dialect.names.items():
        total = next((totals[name] for name in names if name in totals), None)
        if total is not None:
            values[signal] = _value(signal, total)
        elif signal in dialect.expected:
            missing.append(names[0])
    return Reading(dialect.name, values, tuple(missing))


def _value(signal: str, total: Total) -> float:
    return total.max if signal in _OF_THE_FULLEST else total.sum
