"""What the gateway costs per request, beside what it cannot cost less than: `make bench NAME=http`.

One run measures in interleaved rounds, so that whatever else the machine does falls on all alike; a figure is the
median of its rounds. CPU is user + system time of the gateway's processes (the supervisor and one worker; the store
apart) at 16 connections, latency is at one. One request in ten is traced to a collector, as the budget says.
"""

from __future__ import annotations

import itertools
import json
import signal
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import httpx
from tokenizers import Tokenizer

from tests.cache.prepared import prepared_model

from . import messages
from .load import Plan
from .processes import BenchFailed, cpu_s, port_of, result_of, running, wait_until
from .subject import EXPORT_DELAY_S, SAMPLED_SHARE, Subject, gateway

ROUNDS = 7
FEWEST_ROUNDS = 3
ENOUGH_S = 110.0  # on a busy machine fewer rounds have to do
CONNECTIONS = 16
TOKENS = range(30, 35)
HITS = 64
STORED_AT_ONCE = 32  # a busy machine embeds them within the time that a write has

Figures = dict[str, list[float]]


@dataclass(frozen=True)
class Budget:
    """The design's limit for one figure over another of the same run."""

    figure: str
    over: str
    limit: float


BUDGETS = (
    Budget("exact_hit_cpu_us", "echo_cpu_us", 4.0),
    Budget("miss_cpu_us", "echo_cpu_us", 6.0),
    Budget("stream_miss_cpu_us", "stream_direct_cpu_us", 3.0),
    Budget("semantic_hit_p50_ms", "embed_p50_ms", 1.3),
)
REPORTED = (
    "echo_cpu_us", "exact_hit_cpu_us", "miss_cpu_us", "stream_direct_cpu_us", "stream_miss_cpu_us",
    "semantic_hit_cpu_us", "semantic_miss_cpu_us", "embed_cpu_us", "semantic_hit_p50_ms", "embed_p50_ms",
)  # fmt: skip


class Bench:
    def __init__(self, subject: Subject, *, echo: tuple[int, int], upstream_port: int, model: Path) -> None:
        self.figures: Figures = defaultdict(list)
        self.requests = 0
        self._subject = subject
        self._echo_port, self._echo_pid = echo
        self._upstream_port = upstream_port
        self._model = model
        self._tokenizer = _tokenizer(model)
        self._hits: list[str] = []
        self._similar = (q for q in messages.similar_questions() if self._tokens(q) in TOKENS)

    # --- before the rounds

    def prepare(self) -> None:
        """Store what is to be hit, exactly and by meaning."""
        self._hits = messages.unique_chats(HITS, "stored")
        self._send(self._hits, "MISS", "mode-exact", mode="exact")
        stored = messages.questions()
        for start in range(0, len(stored), STORED_AT_ONCE):
            questions = stored[start : start + STORED_AT_ONCE]
            bodies = [messages.chat(question) for question in questions]
            # A refresh, since many of them are near enough to be answered for one another.
            refresh = partial(self._send, outcome="REFRESH", reason="no-cache", cache_control="no-cache")
            probe = questions[-1].replace("should I", "shall I")
            wait_until(
                lambda probe=probe: self._ask(probe, "only-if-cached", namespace="similar") == "HIT-SEMANTIC",
                what="what was stored is found by meaning",
                within_s=120.0,
                doing=partial(refresh, bodies, namespace="similar"),
            )

    def _tokens(self, text: str) -> int:
        return len(self._tokenizer.encode(text).ids)

    def _ask(self, question: str, cache_control: str | None = None, *, namespace: str) -> str:
        """One question; what became of it."""
        reply = httpx.post(
            f"http://127.0.0.1:{self._subject.port}/v1/chat/completions",
            content=messages.chat(question),
            headers=self._headers("semantic", namespace, cache_control),
            trust_env=False,
        )
        self.requests += 1
        return reply.headers["x-cache"]

    # --- one round

    def round(self, number: int) -> None:
        self._cpu("echo_cpu_us", lambda: self._echo(12_000, CONNECTIONS), pids=[self._echo_pid], count=12_000)
        hits = _cycled(self._hits, 3_000)
        self._gateway_cpu("exact_hit", lambda: self._send(hits, "HIT-EXACT", mode="exact"), len(hits))
        misses = messages.unique_chats(1_600, f"{number}")
        self._gateway_cpu("miss", lambda: self._send(misses, "MISS", "mode-exact", mode="exact"), len(misses))
        streams = messages.unique_chats(480, f"{number}-stream", is_stream=True)
        self._gateway_cpu(
            "stream_miss",
            lambda: self._send(streams, "MISS", "mode-exact", mode="exact", is_stream=True),
            len(streams),
        )
        self._floor("stream", "stream_direct", port=self._upstream_port, count=480, connections=CONNECTIONS)
        self._semantic_round(number)
        self._latency_round(number)

    def _semantic_round(self, number: int) -> None:
        similar = self._next_similar(160)
        self._gateway_cpu(
            "semantic_hit",
            lambda: self._send(similar, "HIT-SEMANTIC", "accepted", namespace="similar"),
            len(similar),
        )
        # A namespace of its own each round: the index a miss is searched in stays as large as the one of the hits.
        namespace = f"unlike-{number}"
        first, *others = self._unlike(161, seed=str(number))
        self._ask(first, namespace=namespace)
        time.sleep(EXPORT_DELAY_S)  # until the first one is stored: an empty index is not searched
        unlike = [messages.chat(question) for question in others]
        self._gateway_cpu(
            "semantic_miss",
            lambda: self._send(unlike, "MISS", "below-threshold", namespace=namespace),
            len(unlike),
        )

    def _latency_round(self, number: int) -> None:
        self.figures["echo_p50_ms"].append(self._echo(300, 1))
        self.figures["exact_hit_p50_ms"].append(
            self._send(_cycled(self._hits, 300), "HIT-EXACT", mode="exact", connections=1)
        )
        self.figures["miss_p50_ms"].append(
            self._send(
                messages.unique_chats(300, f"{number}-one"), "MISS", "mode-exact", mode="exact", connections=1
            )
        )
        similar = self._next_similar(100)
        self.figures["semantic_hit_p50_ms"].append(
            self._send(similar, "HIT-SEMANTIC", "accepted", namespace="similar", connections=1)
        )
        # Next to what it is compared with: a machine's mood changes within seconds.
        self._floor("embed", "embed", folder=str(self._model), texts=messages.questions()[:160])

    def _next_similar(self, count: int) -> list[str]:
        return [messages.chat(question) for question in itertools.islice(self._similar, count)]

    def _unlike(self, count: int, *, seed: str) -> list[str]:
        fitting = (q for q in messages.unlike_questions(100 * count, seed) if self._tokens(q) in TOKENS)
        return [question for question, _ in zip(fitting, range(count), strict=False)]

    # --- sending and measuring

    def _headers(self, mode: str, namespace: str, cache_control: str | None = None) -> dict[str, str]:
        headers = {
            "authorization": f"Bearer {self._subject.key}",
            "x-cache-mode": mode,
            "x-cache-namespace": namespace,
        }
        return headers if cache_control is None else headers | {"cache-control": cache_control}

    def _send(
        self,
        bodies: list[str],
        outcome: str,
        reason: str | None = None,
        *,
        mode: str = "semantic",
        namespace: str = "default",
        connections: int = CONNECTIONS,
        is_stream: bool = False,
        cache_control: str | None = None,
    ) -> float:
        """Send all to the gateway; the median latency in ms."""
        self.requests += len(bodies)
        plan = Plan(
            self._subject.port,
            bodies,
            connections,
            self._headers(mode, namespace, cache_control),
            outcome,
            reason,
            is_stream,
        )
        return _loaded(plan)

    def _echo(self, count: int, connections: int) -> float:
        return _loaded(Plan(self._echo_port, _cycled(self._hits, count), connections, {}, None))

    def _gateway_cpu(self, name: str, send: Callable[[], float], count: int) -> None:
        store_s = cpu_s(self._subject.store_pids)
        self._cpu(f"{name}_cpu_us", send, pids=self._subject.pids, count=count)
        self.figures[f"{name}_store_cpu_us"].append((cpu_s(self._subject.store_pids) - store_s) / count * 1e6)

    def _cpu(self, figure: str, send: Callable[[], float], *, pids: Sequence[int], count: int) -> None:
        before_s = cpu_s(pids)
        send()
        time.sleep(1.2 * EXPORT_DELAY_S)  # what is left to do for these requests, their spans too, is theirs
        self.figures[figure].append((cpu_s(pids) - before_s) / count * 1e6)

    def _floor(self, name: str, figure: str, **plan: object) -> None:
        for unit, value in result_of("-m", "bench.floors", name, plan=plan).items():
            self.figures[f"{figure}_{unit}"].append(value)


def _loaded(plan: Plan) -> float:
    result = result_of("-m", "bench.load", plan=asdict(plan))
    if result["count"] != len(plan.bodies):
        raise BenchFailed(f"{result['count']} replies to {len(plan.bodies)} requests")
    return float(result["p50_ms"])


def _cycled(items: Sequence[str], count: int) -> list[str]:
    return list(itertools.islice(itertools.cycle(items), count))


def _tokenizer(model: Path) -> Tokenizer:
    tokenizer = Tokenizer.from_file(str(model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _table(figures: dict[str, float], spread: dict[str, float]) -> str:
    lines = [f"{'figure':26}{'median':>10}{'spread':>9}{'ratio':>8}{'budget':>8}"]
    budgets = {budget.figure: budget for budget in BUDGETS}
    for name, value in figures.items():
        line = f"{name:26}{value:10.2f}{spread[name]:8.0%} "
        if (budget := budgets.get(name)) is not None:
            ratio = value / figures[budget.over]
            verdict = "ok" if ratio <= budget.limit else "OVER"
            line += f"{ratio:8.2f}{budget.limit:8.1f}  {verdict} (over {budget.over})"
        elif name.endswith("_cpu_us") and "store" not in name:
            line += f"{value / figures['echo_cpu_us']:8.2f}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    started_s = time.monotonic()
    model = prepared_model()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="eg-bench-")))
        echo, upstream, collector = (
            stack.enter_context(running("-m", "bench.servers", name))
            for name in ("echo", "upstream", "collector")
        )
        upstream_port, collector_port = port_of(upstream), port_of(collector)
        subject = stack.enter_context(
            gateway(folder, model=model, upstream_port=upstream_port, collector_port=collector_port)
        )
        bench = Bench(subject, echo=(port_of(echo), echo.pid), upstream_port=upstream_port, model=model)
        bench.prepare()
        for number in range(ROUNDS):
            bench.round(number)
            passed_s = time.monotonic() - started_s
            print(f"round {number + 1} of {ROUNDS}, {passed_s:.0f} s", file=sys.stderr)
            if passed_s > ENOUGH_S and number + 1 >= FEWEST_ROUNDS:
                break
        traced = httpx.get(f"http://127.0.0.1:{collector_port}/", trust_env=False).json()
    share = traced["traces"] / bench.requests
    if abs(share - SAMPLED_SHARE) > SAMPLED_SHARE / 2:
        raise BenchFailed(f"{traced['traces']} of {bench.requests} requests were traced, not one in ten")
    medians = {name: statistics.median(values) for name, values in bench.figures.items()}
    spread = {
        name: (max(values) - min(values)) / medians[name] if medians[name] else 0.0
        for name, values in bench.figures.items()
    }
    print(_table(medians, spread))
    print(f"{bench.requests} requests to the gateway, {share:.1%} traced with {traced['spans']} spans")
    print(json.dumps({"bench": "http"} | {name: round(medians[name], 3) for name in REPORTED}))


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by way of every `finally`: nothing stays behind
    try:
        main()
    except BenchFailed as failure:
        sys.exit(f"bench.http: {failure}")
