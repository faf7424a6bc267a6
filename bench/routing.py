"""Routing policies side by side, in simulated time: `make bench NAME=routing`.

First table: 8 members whose speeds differ fourfold and one of which answers every request with an error, 4 gateway
workers that know nothing of each other, heavy-tailed lengths, 80% of what the healthy members can do at most. The
oracle sees all members at this instant; the clairvoyant knows how long requests will be, too, which no router can.
Second: what weights that follow the measured pace gain over plain turns where nothing fails and turns are just able
to carry the load. Third: CPU.
"""

from __future__ import annotations

import json
import math
import random
import statistics
import time
from collections.abc import Callable, Sequence

from backends.model import Member, PolicyName, Pool, Signals
from backends.router import Router
from backends.signals import read_metrics

from .simulation import MODEL, Oracle, Outcome, Scenario, Simulation

_COMPARED: tuple[PolicyName | Oracle, ...] = (
    "least-load",
    "round-robin",
    "random",
    "p2c",
    "weighted",
    "oracle",
    "clairvoyant",
)
_SPEEDS = (60, 60, 90, 120, 120, 180, 210, 240)
_SEEDS = (1, 2, 3)


def main() -> None:
    rows = [_row(policy, _under_load(policy)) for policy in _COMPARED]
    print("8 members, speeds 1-4x, one failing, 4 workers, heavy-tailed lengths, 80% load")
    _print(rows)
    of = {row["policy"]: row for row in rows}
    best = float(of["least-load"]["p99_ms"])
    print(f"least-load p99: {best / float(of['round-robin']['p99_ms']) - 1:+.0%} to round-robin,", end=" ")
    print(f"{best / float(of['oracle']['p99_ms']) - 1:+.0%} to the oracle,", end=" ")
    print(f"{best / float(of['clairvoyant']['p99_ms']) - 1:+.0%} to the clairvoyant\n")
    dynamic = [_row(policy, _steady(policy)) for policy in ("round-robin", "weighted", "least-load")]
    print("4 members, speeds 1-2.5x, nothing fails, 45% load: dynamic weights against plain turns")
    _print(dynamic)
    cpu = _cpu()
    print(f"CPU: {cpu['choice_us']:.1f} us a choice among 8, {cpu['parse_us']:.0f} us a vLLM metrics page\n")
    print(json.dumps({"bench": "routing", "rows": rows, "dynamic_weights": dynamic} | cpu))


def _under_load(policy: PolicyName | Oracle) -> list[Outcome]:
    return [
        Simulation(Scenario(_SPEEDS, frozenset({3}), 0.8, 8000, _long, seed=seed), policy).run()
        for seed in _SEEDS
    ]


def _steady(policy: PolicyName) -> list[Outcome]:
    speeds = (600, 900, 1200, 1500)
    return [
        Simulation(Scenario(speeds, frozenset(), 0.45, 8000, _short, seed=seed), policy).run()
        for seed in _SEEDS
    ]


def _long(rng: random.Random) -> float:
    """Tokens: 120 as a median, a hundredth above 1,200, 4,000 at most."""
    return min(rng.lognormvariate(4.8, 1.0), 4000) + 10


def _short(rng: random.Random) -> float:
    return rng.lognormvariate(4.0, 0.5) + 10


def _row(policy: str, outcomes: Sequence[Outcome]) -> dict[str, str | float]:
    """The mean over the seeds of each figure, so that no single run decides."""
    return {
        "policy": policy,
        "mean_ms": round(statistics.fmean(one.mean_ms for one in outcomes), 1),
        "p50_ms": round(statistics.fmean(one.percentile_ms(0.50) for one in outcomes), 1),
        "p99_ms": round(statistics.fmean(one.percentile_ms(0.99) for one in outcomes), 1),
        "errors": sum(one.errors for one in outcomes),
    }


def _print(rows: Sequence[dict[str, str | float]]) -> None:
    print(f"  {'policy':<12}{'mean ms':>10}{'p50 ms':>10}{'p99 ms':>10}{'errors':>8}")
    for row in rows:
        figures = "".join(f"{row[name]:>10,.0f}" for name in ("mean_ms", "p50_ms", "p99_ms"))
        print(f"  {row['policy']:<12}{figures}{row['errors']:>8}")


def _cpu() -> dict[str, float]:
    members = tuple(Member(f"s{at}", f"http://s{at}", "m", "1") for at in range(8))
    router = Router(
        {MODEL: Pool(members)}, clock=time.monotonic, rng=random.Random(1), live_workers=lambda: 4
    )
    now_s = time.monotonic()
    router.update_signals(
        Signals(one.name, now_s, 60.0, "ok", running=float(at), kv_usage=0.5)
        for at, one in enumerate(members)
    )
    page = _vllm_page()
    return {
        "choice_us": _us_each(lambda: router.choose(MODEL, members), times=3000),
        "parse_us": _us_each(lambda: read_metrics(page), times=300),
    }


def _us_each(work: Callable[[], object], *, times: int) -> float:
    best_s = math.inf
    for _ in range(5):
        began_s = time.process_time()
        for _ in range(times):
            work()
        best_s = min(best_s, time.process_time() - began_s)
    return round(best_s / times * 1e6, 1)


def _vllm_page() -> str:
    """As long as that of a real server with one engine: 22 histograms of 24 buckets, 30 other metrics."""
    labels = 'engine="0",model_name="org/model-of-usual-name"'
    lines = [f"vllm:num_requests_{name}{{{labels}}} 7.0" for name in ("running", "waiting")]
    lines += [f"vllm:kv_cache_usage_perc{{{labels}}} 0.37", f"vllm:num_preemptions_total{{{labels}}} 3.0"]
    lines += [f"vllm:some_counter_{number}_total{{{labels}}} 123456.0" for number in range(26)]
    for number in range(22):
        name = f"vllm:some_{number}_seconds"
        lines += [f"# HELP {name} What it is about.", f"# TYPE {name} histogram"]
        lines += [f'{name}_bucket{{{labels},le="{bound}"}} 1234.0' for bound in range(24)]
        lines += [f"{name}_sum{{{labels}}} 1234.5", f"{name}_count{{{labels}}} 1234.0"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
