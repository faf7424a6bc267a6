"""Decides down to which score answers may be served so that the share of wrong ones stays under the budget.

Two bounds must hold at once: what the learned weights predict for recent traffic, at its 90% quantile, and what
audits found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .learning import MOST_AUDITS, Array, Weights, chance, draws

_DRAWS = 256
_LOOKS = 256
# Audits may find less than the budget itself: being under it by luck must not count as being under it.
_AUDITED_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Bound:
    """`score` is the lowest that may be served. What is expected above it, of hits: `predicted` is the quantile of
    the wrong share, `audited` that found, among `audits`. `traffic` is the share of recent requests above it."""

    score: float
    predicted: float
    audited: float
    audits: int
    traffic: float


def lowest_score(
    weights: Weights,
    *,
    traffic: Array,
    audited: Array,
    is_right: NDArray[np.bool_],
    budget: float,
    confidence: float = 0.9,
    most_audits: int = MOST_AUDITS,
) -> Bound | None:
    """`traffic` and `audited` are rows of features; of the audits, given in order of time, the latest count. None:
    there is no score above which both bounds hold."""
    if not len(traffic):
        return None
    audited, is_right = audited[-most_audits:], is_right[-most_audits:]
    mean = np.array(weights.mean)
    ordered = traffic[np.argsort(-(traffic @ mean), kind="stable")]
    scores = ordered @ mean
    sizes = np.unique(np.linspace(1, len(ordered), _LOOKS).round().astype(int))
    wrong = np.cumsum(chance(-(ordered @ draws(weights, _DRAWS).T)), axis=0)[sizes - 1] / sizes[:, None]
    predicted = np.quantile(wrong, confidence, axis=1)
    audit_scores = audited @ mean if len(audited) else np.empty(0)
    for at in np.flatnonzero(predicted <= budget)[::-1]:
        lowest = float(scores[sizes[at] - 1])
        above = audit_scores >= lowest
        count = int(above.sum())
        found = float((above & ~is_right).sum() / count) if count else 0.0
        if found <= _AUDITED_SHARE * budget:
            return Bound(lowest, float(predicted[at]), found, count, float(sizes[at] / len(ordered)))
    return None
