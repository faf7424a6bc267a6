"""Learns how probable it is that a stored question is the same, from audited pairs: a Bayesian logistic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]

# Before any evidence: right more often than not at cosine 0.90, and more so above. Weak enough for some ten audits
# to speak louder. Other features than the cosine must earn their weight.
_PRIOR_MEAN = (1.0, 1.2)
_PRIOR_PRECISION = (0.05, 0.5)
_SUPPOSED = 0.5
_SHARE_KEPT = 0.7
_FEWEST_KEPT = 500
_MOST_STEPS = 25
_SMALL_STEP = 1e-6
# A cache that fills, and gathers aliases, is right more often at the same score: what was audited when it was empty
# says little about it.
MOST_AUDITS = 700
_LENT = 0.25
_ENOUGH_OF_ONES_OWN = 350
_FARTHEST = 30.0  # beyond it a logistic is 0 or 1 for all that follows


@dataclass(frozen=True, slots=True)
class Weights:
    """A Gaussian over the weights of the score: its mean and its precision matrix, row by row.

    `audits` is what it was learned from; `is_borrowed` says that the prior came from another namespace.
    """

    mean: tuple[float, ...]
    precision: tuple[tuple[float, ...], ...]
    audits: int = 0
    is_borrowed: bool = False


def prior(width: int) -> Weights:
    mean = (*_PRIOR_MEAN, *(0.0,) * (width - 2))
    diagonal = (*_PRIOR_PRECISION, *(_PRIOR_PRECISION[1],) * (width - 2))
    return Weights(mean, _rows(np.diag(diagonal)))


def borrowed(lent: Weights, *, own_audits: int) -> Weights:
    """A prior from what another namespace taught. It counts as a quarter of the audits that it was learned from, but
    never for more than there are of one's own, and for less and less as these come: for nothing once there are 350."""
    own = prior(len(lent.mean))
    counts = min(_LENT * lent.audits, own_audits, _ENOUGH_OF_ONES_OWN - own_audits)
    if counts <= 0:
        return own
    share = counts / lent.audits
    of_own, of_lent = np.array(own.precision) * (1 - share), np.array(lent.precision) * share
    precision = of_own + of_lent
    mean = np.linalg.solve(precision, of_own @ np.array(own.mean) + of_lent @ np.array(lent.mean))
    return Weights(tuple(mean.tolist()), _rows(precision), is_borrowed=True)


def learn(
    rows: Array, is_right: NDArray[np.bool_], start: Weights, *, most_audits: int = MOST_AUDITS
) -> Weights:
    """From the latest of the audits, given in order of time: of twice `most_audits`, the seven tenths that score
    highest by what the latest `most_audits` teach; all where there are few.

    Serving is decided among the pairs that score high. The many that do not are wrong for other reasons, and one slope
    for both would call the high ones worse than they are.
    """
    ranking = np.array(_most_probable(rows[-most_audits:], is_right[-most_audits:], start).mean)
    rows, is_right = rows[-2 * most_audits :], is_right[-2 * most_audits :]
    scores = rows @ ranking
    kept = max(_FEWEST_KEPT, round(_SHARE_KEPT * len(rows)))
    highest = np.sort(np.argsort(-scores, kind="stable")[:kept])
    return _most_probable(rows[highest], is_right[highest], start)


def _most_probable(rows: Array, is_right: NDArray[np.bool_], start: Weights) -> Weights:
    """Newton's method; the curvature at the end is the precision."""
    mean, precision = np.array(start.mean), np.array(start.precision)
    # Half a right and half a wrong audit more, spread over all: without a single error the curvature would vanish, and
    # a thousand clean audits would count for nothing.
    share = _SUPPOSED / max(1, len(rows))
    right, wrong = is_right + share, ~is_right + share

    def loss(weights: Array) -> float:
        distance, scores = weights - mean, rows @ weights
        missed = right * np.logaddexp(0, -scores) + wrong * np.logaddexp(0, scores)
        return float(missed.sum() + distance @ precision @ distance / 2)

    weights, curvature = mean.copy(), precision
    for _ in range(_MOST_STEPS if len(rows) else 0):
        probable = chance(rows @ weights)
        gradient = rows.T @ (right * (1 - probable) - wrong * probable) - precision @ (weights - mean)
        information = (right + wrong) * probable * (1 - probable)
        curvature = (rows * information[:, None]).T @ rows + precision
        step = np.linalg.solve(curvature, gradient)
        # A whole step can overshoot where the logistic is flat; each half as long goes downhill sooner or later.
        while loss(weights + step) > loss(weights) and np.abs(step).max() > _SMALL_STEP:
            step = step / 2
        weights = weights + step
        if np.abs(step).max() <= _SMALL_STEP:
            break
    return Weights(tuple(weights.tolist()), _rows(curvature), len(rows), start.is_borrowed)


def chance(score: Array) -> Array:
    """Of being right, by score."""
    probable: Array = 1 / (1 + np.exp(-np.clip(score, -_FARTHEST, _FARTHEST)))
    return probable


def draws(weights: Weights, count: int) -> Array:
    """`count` probable weights, one a row, always the same ones: equal evidence gives equal decisions."""
    normal = np.random.default_rng(0).standard_normal((count, len(weights.mean)))
    lower = np.linalg.cholesky(np.array(weights.precision))
    drawn: Array = np.linalg.solve(lower.T, normal.T).T + np.array(weights.mean)
    return drawn


def score(row: Sequence[float], mean: Sequence[float]) -> float:
    return sum(value * weight for value, weight in zip(row, mean, strict=True))


def _rows(matrix: Array) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row) for row in matrix.tolist())
