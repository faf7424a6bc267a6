"""Computes from a namespace's own audits what each threshold, or budget, would have served of its traffic.

Each audit stands for all that it was drawn from. What judges found is corrected as far as they are measured. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from ..model import Value
from .correction import Measured, of_all, usable
from .events import Audit
from .learning import score
from .ledger import Ledger, wilson
from .standing import Rules, assess


class WouldBe(Value, frozen=True):
    """`hits` and `wrong` are estimates for all traffic since the oldest audit; `low` and `high` the 90% interval of
    their share, which rests on `audits`. `budget` is None where a threshold on the cosine decides."""

    policy: str
    threshold: float
    budget: float | None
    hits: float
    wrong: float
    low: float
    high: float
    audits: int


class Hindsight(Value, frozen=True):
    """`since_s` is when the oldest audit was made (wall clock)."""

    points: tuple[WouldBe, ...]
    since_s: float
    audits: int
    judges: tuple[str, ...]
    is_corrected: bool


def look_back(
    ledger: Ledger,
    rules: Rules,
    *,
    thresholds: Sequence[float],
    budgets: Sequence[float],
    at_s: float,
    measured: Measured = lambda _: None,
) -> Hindsight:
    """Of the time since its questions last became others. A trip matters not here: what led to it shows what to
    avoid. Findings of judges that are of no use are left out."""
    known = usable((audit.judge for audit in ledger.audits), measured)
    audits = [
        audit for audit in ledger.audits if audit.at_s >= ledger.drift.changed_s and audit.judge in known
    ]
    by_cosine = "fixed" if rules.policy == "fixed" else "guarded"
    points = []
    for threshold in thresholds:
        served = [audit for audit in audits if audit.similarity >= threshold]
        points.append(_point(Rules(by_cosine, threshold=threshold), None, served, measured))
    for budget in budgets:
        learned = replace(rules, policy="learned", budget=budget)
        points.append(
            _point(learned, budget, list(_learned(ledger, learned, audits, at_s, measured)), measured)
        )
    judges = tuple(sorted({audit.judge for audit in audits}))
    return Hindsight(
        tuple(points),
        since_s=min((audit.at_s for audit in audits), default=at_s),
        audits=len(audits),
        judges=judges,
        is_corrected=of_all(judges, measured).is_measured,
    )


def _learned(
    ledger: Ledger, rules: Rules, audits: Sequence[Audit], at_s: float, measured: Measured
) -> Iterator[Audit]:
    standing = assess(ledger, rules, at_s=at_s, measured=measured)
    weights, least = standing.weights, standing.least_score
    if weights is not None and least is not None:
        yield from (audit for audit in audits if score(audit.row, weights.mean) >= least)


def _point(rules: Rules, budget: float | None, served: Sequence[Audit], measured: Measured) -> WouldBe:
    weights = [1 / audit.draw for audit in served]
    hits = sum(weights)
    found = sum(weight for weight, audit in zip(weights, served, strict=True) if not audit.is_right)
    correction = of_all((audit.judge for audit in served), measured)
    # Draws of unequal probability tell less than as many equal ones.
    worth = round(hits * hits / sum(weight * weight for weight in weights)) if served else 0
    share = wilson(round(worth * found / hits), worth) if worth else wilson(0, 0)
    return WouldBe(
        policy=rules.policy,
        threshold=rules.threshold,
        budget=budget,
        hits=hits,
        wrong=hits * correction.corrected(found / hits) if hits else 0.0,
        low=correction.corrected(share.low),
        high=correction.corrected(share.high),
        audits=len(served),
    )
