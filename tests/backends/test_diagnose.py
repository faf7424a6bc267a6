"""What an engine is short of, told from a minute of its signals."""

from __future__ import annotations

from typing import Any

import pytest

from backends import Signals, diagnose


def minute(**fields: Any) -> list[Signals]:
    """Sixty signals; a tuple as a value grows evenly from its first to its second."""

    def at(second: int, value: Any) -> Any:
        if not isinstance(value, tuple) or len(value) != 2:
            return value
        return value[0] + (value[1] - value[0]) * second / 60

    return [Signals("a", float(s), 1.0, "ok", **{k: at(s, v) for k, v in fields.items()}) for s in range(61)]


def shortages(**fields: Any) -> dict[str, str]:
    return {
        finding.shortage: f"{finding.evidence}: {finding.advice}" for finding in diagnose(minute(**fields))
    }


def test_a_server_with_enough_of_everything_is_short_of_nothing() -> None:
    busy = {"running": 12.0, "waiting": 1.0, "kv_usage": 0.5, "preemptions_total": 7.0}
    assert shortages(**busy, generated_tokens_total=(0.0, 9000.0)) == {}


def test_a_queue_with_free_memory_wants_a_larger_batch() -> None:
    found = shortages(
        running=16.0, waiting=9.0, kv_usage=0.2, queue_s_total=(0.0, 90.0), prefill_s_total=(0.0, 9.0)
    )
    assert list(found) == ["queueing"]
    assert "--max-num-seqs" in found["queueing"]
    assert "10.0 times as long as prefill" in found["queueing"]


def test_a_queue_with_full_memory_waits_for_memory() -> None:
    found = shortages(running=16.0, waiting=9.0, kv_usage=0.95)
    assert list(found) == ["kv-pressure", "queueing"]
    assert "--gpu-memory-utilization" in found["kv-pressure"]
    assert "--max-num-seqs" not in found["queueing"]


def test_preemptions_are_counted_by_the_minute_across_a_restart() -> None:
    history = [*minute(preemptions_total=(100.0, 102.0))[:31], *minute(preemptions_total=(0.0, 20.0))[31:]]
    (finding,) = diagnose(history)
    assert finding.shortage == "preemptions"
    assert "--max-num-seqs" in finding.advice


def test_a_server_that_serves_one_at_a_time_could_carry_more() -> None:
    assert list(shortages(running=0.8, waiting=0.0, generated_tokens_total=(0.0, 600.0))) == ["idle-decode"]


def test_an_idle_server_is_short_of_nothing() -> None:
    assert shortages(running=0.0, waiting=0.0, generated_tokens_total=600.0) == {}


def test_metrics_that_were_renamed_are_named() -> None:
    found = shortages(running=3.0, missing=("vllm:kv_cache_usage_perc",))
    assert "vllm:kv_cache_usage_perc" in found["metrics-missing"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_two_signals_are_too_few_to_say(count: int) -> None:
    assert diagnose(minute(waiting=50.0)[:count]) == []
