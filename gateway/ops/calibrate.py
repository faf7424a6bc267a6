"""Computes what each policy would have served on labelled questions, and how wrong: pairs, or a stream in order.

Pure but for the embedder that is given. E is wrong ones among all, F wrong ones among served; both with 90% Wilson
intervals.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cache import Course, Embedder, Outcome, Rules, Stream, UnfitText, first_veto, read, replay, wilson

THRESHOLDS = tuple(round(0.80 + step / 100, 2) for step in range(20))
BUDGETS = (0.01, 0.02, 0.05, 0.10)
_NO_KIND = "all"


class BadFile(Exception):
    """A line is not what was expected; says which and why."""


@dataclass(frozen=True, slots=True)
class Pair:
    a: str
    b: str
    same: bool
    kind: str
    cosine: float
    veto: str | None


@dataclass(frozen=True, slots=True)
class Counts:
    """Of pairs at one policy and threshold."""

    policy: str
    threshold: float
    kind: str
    pairs: int
    served: int
    false: int
    true: int
    true_pairs: int  # that could have been served


@dataclass(frozen=True, slots=True)
class Point:
    """Of a stream under one policy. `by_kind` counts its wrong hits by the veto that would have stopped them."""

    policy: str
    threshold: float
    budget: float | None
    requests: int
    hits: int
    wrong: int
    first_serve: int | None
    judge_calls: int
    f_low: float
    f_high: float
    by_kind: dict[str, int]

    @property
    def hit_rate(self) -> float:
        return self.hits / self.requests

    @property
    def f(self) -> float:
        return self.wrong / self.hits if self.hits else 0.0

    @property
    def e(self) -> float:
        return self.wrong / self.requests


@dataclass(frozen=True, slots=True)
class Curve:
    points: Sequence[Point]
    recommended: dict[float, float | None]  # by budget: the least threshold of `guarded` that holds it

    def record(self) -> dict[str, Any]:
        points = [
            asdict(point) | {"F": point.f, "E": point.e, "hit_rate": point.hit_rate} for point in self.points
        ]
        return {
            "points": points,
            "recommended": {f"{budget:g}": at for budget, at in self.recommended.items()},
        }


def count_pairs(path: Path, embedder: Embedder) -> list[Counts]:
    """Of `{"a": …, "b": …, "same": …, "kind": …}` lines; the kind may be missing. Raises `BadFile`."""
    pairs = [_pair(record, embedder) for record in _records(path, ("a", "b", "same"))]
    kinds = sorted({pair.kind for pair in pairs} - {_NO_KIND})
    return [
        _counts(policy, threshold, kind, [pair for pair in pairs if kind in (_NO_KIND, pair.kind)])
        for policy in ("fixed", "guarded")
        for threshold in THRESHOLDS
        for kind in (_NO_KIND, *kinds)
    ]


def trace_curve(path: Path, embedder: Embedder, *, tell: Callable[[str], None]) -> Curve:
    """Of `{"text": …, "cls": …}` lines as they came; equal classes have equal answers. Raises `BadFile`."""
    records = _records(path, ("text", "cls"))
    texts = [str(record["text"]) for record in records]
    tell(f"embedding {len(texts)} questions")
    vectors = np.stack([_vector(embedder, text) for text in texts])
    stream = Stream(texts, [record["cls"] for record in records], vectors)
    courses = [Rules(policy, threshold=at) for policy in ("fixed", "guarded") for at in THRESHOLDS]
    courses += [Rules("learned", budget=budget) for budget in BUDGETS]
    points = []
    for rules in courses:
        tell(f"playing {rules.policy} {rules.threshold if rules.policy != 'learned' else rules.budget:g}")
        # Nothing is audited where one threshold is to be seen alone.
        audited = float(rules.policy == "learned")
        outcome = replay(stream, Course(rules, audited_hits=0.02 * audited, audited_misses=audited))
        points.append(_point(rules, outcome, stream))
    return Curve(points, {budget: _recommended(points, budget) for budget in BUDGETS})


def _recommended(points: Sequence[Point], budget: float) -> float | None:
    """The least threshold at which even the upper end of the interval holds the budget."""
    holding = [
        point for point in points if point.policy == "guarded" and point.hits and point.f_high <= budget
    ]
    return min((point.threshold for point in holding), default=None)


def _point(rules: Rules, outcome: Outcome, stream: Stream) -> Point:
    share = wilson(outcome.wrong, outcome.hits)
    kinds = Counter(
        first_veto(read(stream.texts[new]), read(stream.texts[stored])) or "no veto"
        for new, stored in outcome.mistakes
    )
    return Point(
        policy=rules.policy,
        threshold=rules.threshold,
        budget=rules.budget if rules.policy == "learned" else None,
        requests=outcome.requests,
        hits=outcome.hits,
        wrong=outcome.wrong,
        first_serve=outcome.first_serve,
        judge_calls=outcome.judge_calls,
        f_low=share.low,
        f_high=share.high,
        by_kind=dict(kinds.most_common()),
    )


def _counts(policy: str, threshold: float, kind: str, pairs: Sequence[Pair]) -> Counts:
    served = [pair for pair in pairs if pair.cosine >= threshold and (policy == "fixed" or pair.veto is None)]
    right = sum(pair.same for pair in served)
    true_pairs = sum(pair.same for pair in pairs)
    return Counts(policy, threshold, kind, len(pairs), len(served), len(served) - right, right, true_pairs)


def _pair(record: dict[str, Any], embedder: Embedder) -> Pair:
    a, b = str(record["a"]), str(record["b"])
    cosine = float(_vector(embedder, a) @ _vector(embedder, b))
    return Pair(
        a, b, bool(record["same"]), str(record.get("kind", _NO_KIND)), cosine, first_veto(read(a), read(b))
    )


def _vector(embedder: Embedder, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Zero, which is near to nothing, where the embedder cannot read the text: it is not served semantically."""
    try:
        return embedder.embed(text)
    except UnfitText:
        return np.zeros(embedder.dimension, dtype=np.float32)


def _records(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    records = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BadFile(f"{path}, line {number}: no JSON ({error})") from error
        if not isinstance(record, dict) or any(name not in record for name in needed):
            raise BadFile(f"{path}, line {number}: an object with {', '.join(needed)} was expected")
        records.append(record)
    if not records:
        raise BadFile(f"{path} has no lines")
    return records
