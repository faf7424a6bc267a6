"""How far the cache can be trusted: a labelled stream of questions under each policy, from an empty cache.

`make bench NAME=trust` plays 3,080 questions of banking77 in file order and over 20 shuffles through acceptance,
learning and the state machine, with the label as judge (as given: some are wrong). `STREAM=FILE` takes any other
stream, one `{"text": …, "cls": …}` a line. It prints a table and, as its last line, one JSON object. Without the
data it says so and measures nothing.
"""

from __future__ import annotations

import json
import os
import random
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.trust_faults import borrowing, faults, other_histories, out_of_scope
from bench.vectors import embedded
from cache.evidence.ledger import wilson
from cache.evidence.replay import Course, Outcome, Stream, replay
from cache.evidence.standing import Rules

DATA = Path(__file__).parent.parent.parent / "shared" / "data"
REQUESTS, SHUFFLES = 3_080, 20
COURSES = [
    Rules("fixed", threshold=0.82),
    Rules("guarded", threshold=0.95),
    *(Rules("learned", budget=budget) for budget in (0.01, 0.02, 0.05)),
]


@dataclass(frozen=True, slots=True)
class Row:
    """One policy: the run in file order, and the shuffles together."""

    rules: Rules
    in_order: Outcome
    shuffled: Sequence[Outcome]

    @property
    def all(self) -> Sequence[Outcome]:
        return self.shuffled or (self.in_order,)

    @property
    def held(self) -> int:
        return sum(run.wrong <= self.rules.budget * run.hits for run in self.all)

    def line(self) -> str:
        requests, hits, wrong = (
            sum(getattr(run, name) for run in self.all) for name in ("requests", "hits", "wrong")
        )
        share = wilson(wrong, hits, z=1.96)
        name = f"{self.rules.policy} {self.rules.threshold if self.rules.policy != 'learned' else self.rules.budget}"
        own = self.in_order
        return (
            f"{name:14}{100 * hits / requests:7.1f}%{100 * wrong / max(1, hits):7.2f}%"
            f"  [{100 * share.low:5.2f}, {100 * share.high:5.2f}]{100 * wrong / requests:7.2f}%"
            f"{self.held:6} of {len(self.all):2}{self.first_serve:9.0f}{self.judge_calls:8.0f}"
            f"{100 * own.hits / own.requests:10.1f}%{100 * own.wrong / max(1, own.hits):7.2f}%"
        )

    @property
    def first_serve(self) -> float:
        return statistics.mean(run.first_serve or run.requests for run in self.all)

    @property
    def judge_calls(self) -> float:
        return statistics.mean(run.judge_calls for run in self.all)

    def record(self) -> dict[str, Any]:
        requests, hits, wrong = (
            sum(getattr(run, name) for run in self.all) for name in ("requests", "hits", "wrong")
        )
        share = wilson(wrong, hits, z=1.96)
        return {
            "policy": self.rules.policy, "budget": self.rules.budget, "threshold": self.rules.threshold,
            "hits": round(hits / requests, 4), "F": round(wrong / max(1, hits), 4), "E": round(wrong / requests, 4),
            "F_low": round(share.low, 4), "F_high": round(share.high, 4), "held": self.held, "of": len(self.all),
            "first_serve": round(self.first_serve), "judge_calls": round(self.judge_calls),
            "hits_in_file_order": round(self.in_order.hits / self.in_order.requests, 4),
            "F_in_file_order": round(self.in_order.wrong / max(1, self.in_order.hits), 4),
        }  # fmt: skip


def read_stream(path: Path) -> Stream:
    records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    texts = [record["text"] for record in records]
    return Stream(texts, [record["cls"] for record in records], embedded(texts))


def shuffled(stream: Stream, seed: int) -> Stream:
    places = list(range(len(stream.texts)))
    random.Random(seed).shuffle(places)
    return stream.part(places[:REQUESTS])


def row(rules: Rules, stream: Stream, shuffles: int) -> Row:
    in_order = replay(stream.part(range(min(REQUESTS, len(stream.texts)))), Course(rules))
    return Row(
        rules,
        in_order,
        [replay(shuffled(stream, seed), Course(rules), seed=seed) for seed in range(shuffles)],
    )


def main() -> None:
    path = Path(os.environ["STREAM"]) if "STREAM" in os.environ else DATA / "banking77-train.jsonl"
    if not path.exists():
        print(f"skipped: there is no {path.name}; say STREAM=FILE for another labelled stream")
        return
    stream = read_stream(path)
    print(
        f"{path.name}, labels as given; {REQUESTS} requests, {SHUFFLES} shuffles pooled; on the right in file order"
    )
    print(
        "policy            hits      F      95% interval       E       held  1st serve  judge      hits      F"
    )
    rows = []
    for rules in COURSES:
        rows.append(row(rules, stream, SHUFFLES))
        print(rows[-1].line(), flush=True)
    record: dict[str, Any] = {"bench": "trust", "rows": [row.record() for row in rows]}
    if "STREAM" not in os.environ:
        record["faults"] = faults(shuffled(stream, 0))
        record["borrowing"] = borrowing(shuffled(stream, 0))
        record["out_of_scope_served"] = out_of_scope(stream.part(range(REQUESTS)), DATA / "clinc-oos.jsonl")
        record["other_histories_sharing"] = other_histories(DATA / "multiturn-pairs.jsonl")
    print(json.dumps(record))


if __name__ == "__main__":
    main()
