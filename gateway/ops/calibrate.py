"""Computes what each policy would have served on labelled questions, and how wrong: pairs, or a stream in order.

Pure but for the embedder that is given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cache import (
    Course,
    Embedder,
    Outcome,
    Rules,
    Stream,
    UnfitText,
    first_veto,
    is_same,
    is_same_in_form,
    read,
    replay,
    wilson,
)

from .curve import BUDGETS, Curve, Point
from .labelled import records

THRESHOLDS = tuple(round(0.80 + step / 100, 2) for step in range(20))
_NO_KIND = "all"


@dataclass(frozen=True, slots=True)
class Pair:
    a: str
    b: str
    same: bool
    kind: str
    cosine: float
    veto: str | None
    is_same: bool  # but for how it was typed: an exact hit
    is_same_in_form: bool

    def is_served(self, policy: str, threshold: float) -> bool:
        """`fixed` is the plain rule, as it is found everywhere; `guarded` all that stands before and behind it here."""
        if policy == "fixed":
            return self.cosine >= threshold
        return self.is_same or (self.veto is None and (self.is_same_in_form or self.cosine >= threshold))


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


def count_pairs(path: Path, embedder: Embedder) -> list[Counts]:
    """Of `{"a": …, "b": …, "same": …, "kind": …}` lines; the kind may be missing. Raises `BadFile`."""
    pairs = [_pair(record, embedder) for _, record in records(path, ("a", "b", "same"))]
    kinds = sorted({pair.kind for pair in pairs} - {_NO_KIND})
    return [
        _counts(policy, threshold, kind, [pair for pair in pairs if kind in (_NO_KIND, pair.kind)])
        for policy in ("fixed", "guarded")
        for threshold in THRESHOLDS
        for kind in (_NO_KIND, *kinds)
    ]


def trace_curve(path: Path, embedder: Embedder, *, tell: Callable[[str], None]) -> Curve:
    """Of `{"text": …, "cls": …}` lines as they came; equal classes have equal answers. Raises `BadFile`."""
    asked = [record for _, record in records(path, ("text", "cls"))]
    texts = [str(record["text"]) for record in asked]
    tell(f"embedding {len(texts)} questions")
    vectors = np.stack([_vector(embedder, text) for text in texts])
    stream = Stream(texts, [record["cls"] for record in asked], vectors)
    courses = [Rules(policy, threshold=at) for policy in ("fixed", "guarded") for at in THRESHOLDS]
    courses += [Rules("learned", budget=budget) for budget in BUDGETS]
    points = []
    for rules in courses:
        tell(f"playing {rules.policy} {rules.threshold if rules.policy != 'learned' else rules.budget:g}")
        # Nothing is audited where one threshold is to be seen alone.
        audited = float(rules.policy == "learned")
        outcome = replay(stream, Course(rules, audited_hits=0.02 * audited, audited_misses=audited))
        points.append(_point(rules, outcome, stream))
    return Curve(points)


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
    served = [pair for pair in pairs if pair.is_served(policy, threshold)]
    right = sum(pair.same for pair in served)
    true_pairs = sum(pair.same for pair in pairs)
    return Counts(policy, threshold, kind, len(pairs), len(served), len(served) - right, right, true_pairs)


def _pair(record: dict[str, Any], embedder: Embedder) -> Pair:
    a, b = str(record["a"]), str(record["b"])
    cosine = float(_vector(embedder, a) @ _vector(embedder, b))
    kind, veto = str(record.get("kind", _NO_KIND)), first_veto(read(a), read(b))
    return Pair(a, b, bool(record["same"]), kind, cosine, veto, is_same(a, b), is_same_in_form(a, b))


def _vector(embedder: Embedder, text: str) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Zero, which is near to nothing, where the embedder cannot read the text: it is not served semantically."""
    try:
        return embedder.embed(text)
    except UnfitText:
        return np.zeros(embedder.dimension, dtype=np.float32)
