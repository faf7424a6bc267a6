"""What a decision costs: reading the question, then vetoes, features and score for 8 neighbours, without the embedding.

`make bench NAME=decision` prints a table and, as its last line, one JSON object. Neighbours are the real ones among
3,000 questions of banking77; a stored question is usually known from earlier decisions ("warm"), at worst it is not.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from bench.trust import DATA, read_stream
from cache.acceptance import Reading, WordStatistics, around, features, first_veto, read
from cache.acceptance.features import most
from cache.evidence.learning import learn, prior, score

_STORED, _QUESTIONS, _NEIGHBOURS = 3_000, 400, 8
# As learned on banking77 at a budget of 5%: most neighbours must be looked at before none can win.
_WEIGHTS, _LEAST_SCORE = (1.9, 0.25, 0.66, 0.05, 0.85, 0.33), 2.5

Neighbour = tuple[str, float]


def decide(question: str, near: Sequence[Neighbour], words: WordStatistics, mean: Sequence[float]) -> bool:
    """Candidates in descending cosine, until none that is left can win."""
    new: Reading = read(question)
    answers, cosines = list(range(len(near))), [cosine for _, cosine in near]
    best = _LEAST_SCORE
    is_served = False
    for at, (text, cosine) in enumerate(near):
        beside = around(at, answers=answers, cosines=cosines)
        if score(most(cosine, beside).row(), mean) < best:
            break
        stored = read(text)
        value = score(features(new, stored, cosine, words, beside).row(), mean)
        if value >= best and first_veto(new, stored) is None:
            best, is_served = value, True
    return is_served


def timed(
    decision: Callable[[int], object], *, before: Callable[[int], object] = lambda _: None
) -> list[float]:
    """Milliseconds of each of the questions."""
    took = []
    for at in range(_QUESTIONS):
        before(at)
        started = time.perf_counter()
        decision(at)
        took.append(1000 * (time.perf_counter() - started))
    return took


def main() -> None:
    path = DATA / "banking77-train.jsonl"
    if not path.exists():
        print(f"skipped: there is no {path.name}")
        return
    stream = read_stream(path).part(range(_STORED + _QUESTIONS))
    words = WordStatistics()
    for text in stream.texts[:_STORED]:
        words.add(read(text).words)
    questions = stream.texts[_STORED:]
    cosines = stream.vectors[_STORED:] @ stream.vectors[:_STORED].T
    nearest = np.argsort(-cosines, axis=1)[:, :_NEIGHBOURS]
    near = [
        [(stream.texts[place], float(cosines[at, place])) for place in nearest[at].tolist()]
        for at in range(_QUESTIONS)
    ]
    mean = _WEIGHTS

    def warm(at: int) -> None:
        read.cache_clear()
        for text, _ in near[at]:
            read(text)

    runs = {
        "stored ones known": timed(lambda at: decide(questions[at], near[at], words, mean), before=warm),
        "nothing known": timed(
            lambda at: decide(questions[at], near[at], words, mean), before=lambda _: read.cache_clear()
        ),
        "reading alone": timed(lambda at: read(questions[at]), before=lambda _: read.cache_clear()),
        "refit, 1,000 audits": [_refit_ms() for _ in range(20)],
    }
    record: dict[str, object] = {"bench": "decision"}
    for name, took in runs.items():
        p50, p95 = statistics.median(took), sorted(took)[int(len(took) * 0.95)]
        print(f"{name:22} p50 {p50:6.3f} ms   p95 {p95:6.3f} ms")
        record[name] = {"p50_ms": round(p50, 3), "p95_ms": round(p95, 3)}
    print(json.dumps(record))


def _refit_ms() -> float:
    draw = np.random.default_rng(0)
    rows = np.column_stack([np.ones(1_000), draw.standard_normal((1_000, 5))])
    is_right = draw.random(1_000) < 0.8
    started = time.perf_counter()
    learn(rows, is_right, prior(6))
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    main()
