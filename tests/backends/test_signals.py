"""What is read out of the metrics pages of vLLM, llama.cpp and SGLang."""

from __future__ import annotations

import pytest

from backends.signals import Reading, read_metrics
from backends.signals.prometheus import read

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 16.0
vllm:num_requests_waiting{engine="0",model_name="tiny"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="capacity"} 4.0
vllm:num_requests_waiting_by_reason{engine="0",model_name="tiny",reason="deferred"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.044
vllm:num_preemptions_total{engine="0",model_name="tiny"} 3.0
vllm:num_preemptions_created{engine="0",model_name="tiny"} 1.7e+09
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 512.0
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 128.0
vllm:generation_tokens_total{engine="0",model_name="tiny"} 1e+06
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="tiny"} 9.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="tiny"} 12.5
vllm:request_queue_time_seconds_count{engine="0",model_name="tiny"} 25.0
vllm:request_prefill_time_seconds_sum{engine="0",model_name="tiny"} 2.5
"""
LLAMA_CPP = """\
# HELP llamacpp:prompt_tokens_total Number of prompt tokens processed.
# TYPE llamacpp:prompt_tokens_total counter
llamacpp:prompt_tokens_total 31
llamacpp:prompt_seconds_total 0.21
llamacpp:tokens_predicted_total 64
llamacpp:predicted_tokens_seconds 35.1
llamacpp:requests_processing 2
llamacpp:requests_deferred 1
llamacpp:n_busy_slots_per_decode 1.2
"""
SGLANG = """\
sglang:num_running_reqs{model_name="m"} 5.0
sglang:num_queue_reqs{model_name="m"} 3.0
sglang:token_usage{model_name="m"} 0.28
sglang:generation_tokens_total{model_name="m"} 7.557572e+06
"""


def values(page: str) -> Reading:
    reading = read_metrics(page)
    assert reading is not None
    return reading


def test_vllm() -> None:
    assert values(VLLM) == Reading(
        "vllm",
        {
            "running": 16.0,
            "waiting": 4.0,
            "kv_usage": 0.044,
            "preemptions_total": 3.0,
            "prefix_hits_total": 128.0,
            "prefix_queries_total": 512.0,
            "queue_s_total": 12.5,
            "prefill_s_total": 2.5,
            "generated_tokens_total": 1e6,
        },
    )


def test_llama_cpp_says_less_and_nothing_is_missing() -> None:
    assert values(LLAMA_CPP) == Reading(
        "llama.cpp",
        {"running": 2.0, "waiting": 1.0, "prefill_s_total": 0.21, "generated_tokens_total": 64.0},
    )


def test_sglang() -> None:
    assert values(SGLANG) == Reading(
        "sglang",
        {"running": 5.0, "waiting": 3.0, "kv_usage": 0.28, "generated_tokens_total": 7557572.0},
    )


def test_engines_of_one_server_are_added_and_the_fullest_memory_counts() -> None:
    page = VLLM + VLLM.replace('engine="0"', 'engine="1"').replace("0.044", "0.9")
    reading = values(page)
    assert (reading.values["running"], reading.values["waiting"], reading.values["kv_usage"]) == (32, 8, 0.9)


def test_the_old_name_of_kv_usage_is_understood() -> None:
    page = VLLM.replace("kv_cache_usage_perc", "gpu_cache_usage_perc")
    assert values(page).values["kv_usage"] == 0.044
    assert values(page).missing == ()


def test_a_known_metric_that_is_not_there_is_named() -> None:
    page = VLLM.replace("kv_cache_usage_perc", "kv_usage_renamed")
    assert values(page).missing == ("vllm:kv_cache_usage_perc",)
    assert "kv_usage" not in values(page).values


@pytest.mark.parametrize("page", ["", "<html>", "process_cpu_seconds_total 3.0\n"])
def test_a_page_of_another_kind_says_nothing(page: str) -> None:
    assert read_metrics(page) is None


def test_labels_may_hold_anything() -> None:
    page = 'm{model="a \\"quoted\\" } name, {odd}",engine="0"} 3 1700000000\nm{}\t4\n'
    assert read(page, ["m"])["m"].sum == 7


@pytest.mark.parametrize("value", ["NaN", "+Inf", "nonsense", ""])
def test_a_value_that_is_no_number_is_passed_over(value: str) -> None:
    assert read(f"m {value}\nm 2\n", ["m"])["m"] == (2, 2)


def test_names_are_matched_as_a_whole_and_at_the_start_of_a_line() -> None:
    page = "mm 1\nm_total 2\n# m 3\nx m 4\nm 5"
    assert read(page, ["m"])["m"].sum == 5
