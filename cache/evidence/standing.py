"""Decides how a namespace stands: whether similar questions are answered from the cache, by which score, and why.

    learning    not enough evidence yet for a learned score (`guarded` needs none: it starts `on`)
    on          the budget holds, by all that is known
    tripped     it does not; exact hits go on, audits too, and clean ones since then lead back

Pure. What is counted are randomly drawn audits of pairs that the rules would serve; reports can only trip.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace

from ..model import Value
from .bound import lowest_score
from .correction import Bar, Measured, of_all, usable
from .events import Audit
from .learning import Weights, borrowed, learn, prior, score
from .ledger import Ledger, Standing, State, wilson

_AUDITED_SHARE = 0.9  # being under the budget by luck must not count as being under it
_SURPRISE = 0.01  # a run of audits this improbable under the budget is taken as the end of it
_SHORT_RUN = 10
_REPORTERS_TO_TRIP = 3
_REPORTS_COUNT_S = 3_600.0
_LEAST_TO_LEARN = 20
_WINDOWS_AFTER_TRIP = 3


class Rules(Value, frozen=True):
    """What was decided for a namespace. `budget`: the most wrong hits among all hits, at 90% confidence.

    `is_strict`: a learned score that has no evidence yet serves nothing, not what `guarded` would. `borrow_from`: how
    the names of those namespaces begin whose evidence may stand in while there is little of its own; empty: none.
    """

    policy: str = "guarded"
    threshold: float = 0.95
    budget: float = 0.02
    is_strict: bool = False
    borrow_from: str = ""


def assess(
    ledger: Ledger,
    rules: Rules,
    *,
    at_s: float,
    lent: Weights | None = None,
    measured: Measured = lambda _: None,
) -> Standing:
    """The next version of the standing. What is `lent` by another namespace only gives the weights of the score a
    beginning: what audits found is never another's. `measured`: how judges err, where that is known."""
    before = _since_drift(ledger)
    since = [audit for audit in ledger.audits if audit.at_s >= before.trusted_from_s]
    judges = usable((audit.judge for audit in since), measured)
    trusted = [audit for audit in since if audit.judge in judges]
    correction = of_all((audit.judge for audit in trusted), measured)
    bar = correction.bar(rules.budget)
    if before.state == "tripped":
        # What was wrong then says little of now: the newest decide whether it is over, and what is learned from after.
        trusted = trusted[-_WINDOWS_AFTER_TRIP * bar.audits :]
    hits = [audit for audit in trusted if audit.would_serve]
    recent = hits[-2 * bar.audits :]
    found = wilson(sum(not audit.is_right for audit in recent), len(recent))
    standing = replace(
        before,
        version=before.version + 1,
        wrong_share=found,
        corrected=correction.interval(found),
        judges=tuple(sorted({audit.judge for audit in recent})),
        audits=ledger.audited,
        reported_wrong=ledger.reported_wrong,
    )
    if rules.policy == "learned":
        standing = _learned(standing, ledger, trusted, bar, lent)
        if before.state == "tripped":
            # What would be served is what the score of now would serve: the one that tripped may serve nothing more.
            recent = [audit for audit in trusted if _is_above(audit, standing)][-2 * bar.audits :]
    state, reason = _next(standing, before, hits, recent, rules, bar, _reporters(ledger, at_s))
    if since and not trusted and reason in ("few-audits", "not-enough-evidence"):
        reason = "judge-not-usable"
    if state == before.state:
        return replace(standing, reason=reason)
    # What led to a trip is not held against the time after it, nor counted for it.
    first_s = trusted[0].at_s if trusted else at_s
    trusted_from_s = (
        at_s if state == "tripped" else first_s if before.state == "tripped" else before.trusted_from_s
    )
    return replace(standing, state=state, reason=reason, since_s=at_s, trusted_from_s=trusted_from_s)


def _since_drift(ledger: Ledger) -> Standing:
    """The standing so far, without what was found out when the questions were others."""
    standing, drift = ledger.standing, ledger.drift
    return replace(
        standing,
        trusted_from_s=max(standing.trusted_from_s, drift.changed_s),
        divergence=drift.divergence,
        unknown=drift.unknown,
        drift_alarms=drift.alarms,
    )


def _next(
    standing: Standing,
    before: Standing,
    hits: Sequence[Audit],
    recent: Sequence[Audit],
    rules: Rules,
    bar: Bar,
    reporters: int,
) -> tuple[State, str]:
    if reporters >= _REPORTERS_TO_TRIP:
        return "tripped", "reported-wrong"
    if before.state == "tripped":
        if len(recent) < bar.audits:
            return "tripped", "not-enough-evidence"
        if sum(not audit.is_right for audit in recent) > _AUDITED_SHARE * bar.share * len(recent):
            return "tripped", "over-budget"
    elif any(_is_surprising(run, bar.share) for run in (recent, hits[-_SHORT_RUN:])):
        return "tripped", "over-budget"
    if rules.policy == "learned" and standing.least_score is None:
        return "learning", "not-enough-evidence"
    return "on", "within-budget" if len(recent) >= bar.audits else "few-audits"


def _learned(
    standing: Standing, ledger: Ledger, trusted: Sequence[Audit], bar: Bar, lent: Weights | None
) -> Standing:
    if len(trusted) < _LEAST_TO_LEARN:
        return standing if standing.state == "tripped" else replace(standing, least_score=None)
    rows = np.array([audit.row for audit in trusted])
    is_right = np.array([audit.is_right for audit in trusted])
    is_lent = lent is not None and len(lent.mean) == rows.shape[1]
    start = borrowed(lent, own_audits=len(rows)) if lent is not None and is_lent else prior(rows.shape[1])
    weights: Weights = learn(rows, is_right, start)
    traffic = np.array(ledger.traffic or [audit.row for audit in trusted])
    bound = lowest_score(weights, traffic=traffic, audited=rows, is_right=is_right, budget=bar.share)
    return replace(standing, weights=weights, least_score=None if bound is None else bound.score)


def _is_above(audit: Audit, standing: Standing) -> bool:
    weights, least = standing.weights, standing.least_score
    return weights is not None and least is not None and score(audit.row, weights.mean) >= least


def _is_surprising(run: Sequence[Audit], budget: float) -> bool:
    """Would so many wrong ones be improbable if the budget held?"""
    wrong = sum(not audit.is_right for audit in run)
    at_most = sum(
        math.comb(len(run), count) * budget**count * (1 - budget) ** (len(run) - count)
        for count in range(wrong)
    )
    return wrong > 1 and 1 - at_most < _SURPRISE


def _reporters(ledger: Ledger, at_s: float) -> int:
    return sum(at_s - reported_s < _REPORTS_COUNT_S for reported_s in ledger.reporters.values())
