"""What the cache is worth: one stream of questions through the real gateway and a real model server, rule by rule.

`make bench NAME=cache STREAM=FILE` takes `{"text": …, "cls": …}` lines, such as `bench.workload` makes (without STREAM
it makes one: of 10 requests 3 repeat an earlier one, 4 say one in other words). Each rule has a gateway of its own
with an empty cache, and each question goes to all of them, one at a time: exact hits alone, the default policy, a
looser one, and the rule that is found elsewhere, one answer for all that lies within cosine 0.82. Whether a hit was
right is told by the classes: the answer to one of the same. Answers are short, so that a run takes minutes.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from cache import wilson
from tests.backends.llama import running_llama
from tests.cache.prepared import prepared_model

from .messages import MODEL
from .subject import Subject, gateway
from .workload import read_questions, read_stream, workload

DATA = Path(__file__).parent.parent.parent / "shared" / "data" / "banking77-train.jsonl"
SIZE, REPEATS, PARAPHRASES = 120, 0.3, 0.4
_UNAUDITED = {"audits": {"shadow_share": 0, "served_share": 0}}  # nothing but the rule itself
RULES: Mapping[str, Mapping[str, Any]] = {
    "exact": {"mode": "exact"},
    "guarded 0.95": {"policy": "guarded", "threshold": 0.95},
    "guarded 0.85": {"policy": "guarded", "threshold": 0.85},
    "one per cluster 0.82": {"policy": "fixed", "threshold": 0.82},
}
# What the model server remembers of a prompt would favour whoever asks second.
_ANSWER = {"temperature": 0, "max_tokens": 32, "stop": [".", "!", "?", "\n"], "cache_prompt": False}
_PATIENCE_S = 60.0


@dataclass(slots=True)
class Run:
    """What came of one rule."""

    rule: str
    latencies_s: list[float] = field(default_factory=list)
    outcomes: list[str] = field(default_factory=list)
    right: list[bool] = field(default_factory=list)  # of semantic hits
    tokens: int = 0  # that the model server worked on

    @property
    def hits(self) -> int:
        return sum(outcome.startswith("HIT") for outcome in self.outcomes)

    def record(self) -> dict[str, Any]:
        semantic, wrong = len(self.right), self.right.count(False)
        share = wilson(wrong, semantic)
        return {
            "rule": self.rule,
            "requests": len(self.outcomes),
            "hits": round(self.hits / len(self.outcomes), 4),
            "semantic_hits": semantic,
            "mean_ms": round(1000 * statistics.mean(self.latencies_s), 1),
            "p95_ms": round(1000 * statistics.quantiles(self.latencies_s, n=20)[-1], 1),
            "tokens": self.tokens,
            "wrong": wrong,
            "F": round(wrong / semantic, 4) if semantic else None,
            "F_low": round(share.low, 4),
            "F_high": round(share.high, 4),
        }


class Course:
    """A rule under way: its gateway, and which entry is whose. `askers` maps an entry's id to the class of the question
    it was made for."""

    def __init__(self, rule: str, subject: Subject, client: httpx.Client) -> None:
        self.run = Run(rule)
        self._subject = subject
        self._client = client
        self._askers: dict[str, str] = {}

    def ask(self, text: str, cls: str) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": text}], **_ANSWER}
        started = time.perf_counter()
        reply = self._client.post("/v1/chat/completions", json=body).raise_for_status()
        self.run.latencies_s.append(time.perf_counter() - started)
        outcome = reply.headers["x-cache"]
        self.run.outcomes.append(outcome)
        if outcome == "HIT-SEMANTIC":
            self.run.right.append(self._askers[reply.headers["x-cache-id"]] == cls)
        elif not outcome.startswith("HIT"):
            self.run.tokens += reply.json()["usage"]["total_tokens"]
        if outcome == "MISS":
            self._askers[self._entry_of(reply)] = cls

    def _entry_of(self, miss: httpx.Response) -> str:
        """Under which id the answer is stored, if it is: decisions are written a moment later."""
        asked = {"request_id": miss.headers["x-echogate-request-id"]}
        deadline = time.monotonic() + _PATIENCE_S
        while (reply := self._subject.admin.post("/admin/cache/explain", json=asked)).is_error:
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        return str(reply.raise_for_status().json()["exact_key"])


@contextmanager
def courses(upstream_port: int) -> Iterator[list[Course]]:
    """A gateway with an empty cache for each rule, all in front of one model server."""
    with ExitStack() as stack:
        started = []
        for rule, cache in RULES.items():
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="echogate-bench-")))
            subject = stack.enter_context(
                gateway(
                    folder,
                    model=prepared_model(),
                    upstream_port=upstream_port,
                    cache={**_UNAUDITED, **cache},
                )
            )
            client = stack.enter_context(
                httpx.Client(
                    base_url=f"http://127.0.0.1:{subject.port}",
                    headers={"authorization": f"Bearer {subject.key}"},
                    timeout=_PATIENCE_S,
                    trust_env=False,
                )
            )
            started.append(Course(rule, subject, client))
        yield started


def questions() -> list[tuple[str, str]] | None:
    """Of the stream that is asked for, or of one made here; None without data."""
    if "STREAM" in os.environ:
        return [(text, cls) for text, cls, _ in read_stream(Path(os.environ["STREAM"]))]
    if not DATA.exists():
        return None
    made = workload(read_questions(DATA), repeats=REPEATS, paraphrases=PARAPHRASES, size=SIZE)
    return [(each.text, each.cls) for each in made]


def main() -> None:
    stream = questions()
    if stream is None:
        print(f"skipped: there is no {DATA.name}; say STREAM=FILE, as python -m bench.workload makes one")
        return
    print(f"{len(stream)} requests, one at a time; SmolLM2-135M on llama.cpp; labels as judge")
    print(
        f"{'rule':22}{'hits':>8}{'semantic':>10}{'mean':>10}{'p95':>10}{'tokens':>9}{'F':>8}   90% interval"
    )
    with running_llama() as llama, courses(llama.port) as rules:
        for at, (text, cls) in enumerate(stream):
            # Each in turn is the first: whatever else the machine does falls on all alike.
            for course in (*rules[at % len(rules) :], *rules[: at % len(rules)]):
                course.ask(text, cls)
        rows = [course.run.record() for course in rules]
    for row in rows:
        print(_line(row))
    print(json.dumps({"bench": "cache", "requests": len(stream), "rows": rows}))


def _line(row: Mapping[str, Any]) -> str:
    share = "-" if row["F"] is None else f"{100 * row['F']:.1f}%"
    return (
        f"{row['rule']:22}{100 * row['hits']:7.1f}%{row['semantic_hits']:10}{row['mean_ms']:8.0f}ms"
        f"{row['p95_ms']:8.0f}ms{row['tokens']:9}{share:>8}   [{100 * row['F_low']:.1f}, {100 * row['F_high']:.1f}]"
    )


if __name__ == "__main__":
    main()
