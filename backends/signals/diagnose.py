"""What an engine is short of, read off its signals over a while, and which of vLLM's flags to turn; pure."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from ..model import Signals

Shortage = Literal["queueing", "kv-pressure", "preemptions", "idle-decode", "metrics-missing"]

_QUEUE_LONG = 5.0  # requests, on average
_KV_FULL = 0.8
_OFTEN = 0.25  # of the scrapes
_PREEMPTIONS_PER_MIN = 1.0
_IDLE_RUNNING = 1.0
_ENOUGH = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """`evidence` says what was seen, `advice` what to change, with the flag's name."""

    member: str
    shortage: Shortage
    evidence: str
    advice: str


def diagnose(history: Sequence[Signals]) -> list[Finding]:
    """What the signals of one member, oldest first, say of its shortages; a minute of them is enough.

    Empty when nothing is short, and when there are too few signals to say.
    """
    if len(history) < _ENOUGH:
        return []
    checks: tuple[Callable[[Sequence[Signals]], tuple[Shortage, str, str] | None], ...] = (
        _missing,
        _preemptions,
        _kv_pressure,
        _queueing,
        _idle_decode,
    )
    found = (check(history) for check in checks)
    return [Finding(history[-1].member, *each) for each in found if each is not None]


def _missing(history: Sequence[Signals]) -> tuple[Shortage, str, str] | None:
    if not (missing := history[-1].missing):
        return None
    return (
        "metrics-missing",
        f"{', '.join(missing)} not in /metrics",
        "vLLM hides metrics before it drops them: --show-hidden-metrics-for-version shows them for one more release; "
        "report the new names",
    )


def _preemptions(history: Sequence[Signals]) -> tuple[Shortage, str, str] | None:
    per_min = _per_s(history, lambda signals: signals.preemptions_total) * 60
    if per_min < _PREEMPTIONS_PER_MIN:
        return None
    return (
        "preemptions",
        f"{per_min:.0f} preemptions a minute: running requests are thrown out of memory and computed again",
        "lower --max-num-seqs, or give the cache more room: --gpu-memory-utilization up, --max-model-len down, "
        "--kv-cache-dtype fp8",
    )


def _kv_pressure(history: Sequence[Signals]) -> tuple[Shortage, str, str] | None:
    usages = [signals.kv_usage for signals in history if signals.kv_usage is not None]
    if not usages or sum(usage > _KV_FULL for usage in usages) < _OFTEN * len(usages):
        return None
    return (
        "kv-pressure",
        f"KV memory up to {max(usages):.0%} full, above {_KV_FULL:.0%} in "
        f"{sum(usage > _KV_FULL for usage in usages) / len(usages):.0%} of the scrapes",
        "raise --gpu-memory-utilization, use --kv-cache-dtype fp8, or spread over more GPUs with "
        "--tensor-parallel-size",
    )


def _queueing(history: Sequence[Signals]) -> tuple[Shortage, str, str] | None:
    waiting = _mean([signals.waiting for signals in history])
    if waiting is None or waiting <= _QUEUE_LONG:
        return None
    usage = _mean([signals.kv_usage for signals in history])
    queue_s, prefill_s = (
        _growth(history, lambda s: s.queue_s_total),
        _growth(history, lambda s: s.prefill_s_total),
    )
    seen = f"{waiting:.1f} requests wait before prefill on average"
    if queue_s > 0 and prefill_s > 0:
        seen += f", {queue_s / prefill_s:.1f} times as long as prefill itself takes"
    if usage is not None and usage > _KV_FULL:
        return (
            "queueing",
            seen,
            "memory is what they wait for: see kv-pressure; else add a member to the pool",
        )
    return (
        "queueing",
        seen,
        "memory is free, so the batch is what is full: raise --max-num-seqs or --max-num-batched-tokens; "
        "else add a member to the pool",
    )


def _idle_decode(history: Sequence[Signals]) -> tuple[Shortage, str, str] | None:
    running = _mean([signals.running for signals in history])
    waiting = _mean([signals.waiting for signals in history])
    generated_per_s = _per_s(history, lambda signals: signals.generated_tokens_total)
    if running is None or not 0 < running <= _IDLE_RUNNING or (waiting or 0) > 0 or generated_per_s <= 0:
        return None
    return (
        "idle-decode",
        f"{running:.1f} requests run at a time: each step of the engine serves hardly anybody",
        "the server could carry more: give it a larger weight or drain another; for the latency of single requests "
        "turn on --speculative-config",
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _growth(history: Sequence[Signals], read: Callable[[Signals], float | None]) -> float:
    """How much a total grew. A server that started again begins at 0: what it counts from there is added."""
    values = [value for signals in history if (value := read(signals)) is not None]
    pairs = itertools.pairwise(values)
    return sum(after - before if after >= before else after for before, after in pairs)


def _per_s(history: Sequence[Signals], read: Callable[[Signals], float | None]) -> float:
    lasted_s = history[-1].at_s - history[0].at_s
    return _growth(history, read) / lasted_s if lasted_s > 0 else 0.0
