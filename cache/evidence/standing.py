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
from .events import Audit, Row
from .learning import Weights, learn, prior, score
from .ledger import Ledger, Standing, State, wilson

_AUDITED_SHARE = 0.9  # being under the budget by luck must not count as being under it
_SURPRISE = 0.01  # a run of audits this improbable under the budget is taken as the end of it
_SHORT_RUN = 10
_REPORTERS_TO_TRIP = 3
_REPORTS_COUNT_S = 3_600.0
_LEAST_TO_LEARN = 20
_MOST_COPIES = 20
_WINDOWS_AFTER_TRIP = 3


class Rules(Value, frozen=True):
    """What was decided for a namespace. `budget`: the most wrong hits among all hits, at 90% confidence.

    `is_strict`: a learned score that has no evidence yet serves nothing, not what `guarded` would.
    """

    policy: str = "guarded"
    threshold: float = 0.95
    budget: float = 0.02
    is_strict: bool = False


def assess(ledger: Ledger, rules: Rules, *, at_s: float) -> Standing:
    """The next version of the standing."""
    before = ledger.standing
    trusted = [audit for audit in ledger.audits if audit.at_s >= before.trusted_from_s]
    if before.state == "tripped":
        # What was wrong then says little of now: the newest decide whether it is over, and what is learned from after.
        trusted = trusted[-_WINDOWS_AFTER_TRIP * enough(rules.budget) :]
    hits = [audit for audit in trusted if audit.would_serve]
    recent = hits[-2 * enough(rules.budget) :]
    standing = replace(
        before,
        version=before.version + 1,
        wrong_share=wilson(sum(not audit.is_right for audit in recent), len(recent)),
        judges=tuple(sorted({audit.judge for audit in recent})),
        audits=ledger.audited,
        reported_wrong=ledger.reported_wrong,
    )
    if rules.policy == "learned":
        standing = _learned(standing, ledger, trusted, rules)
        if before.state == "tripped":
            # What would be served is what the score of now would serve: the one that tripped may serve nothing more.
            recent = [audit for audit in trusted if _is_above(audit, standing)][-2 * enough(rules.budget) :]
    state, reason = _next(standing, before, hits, recent, rules, _reporters(ledger, at_s))
    if state == before.state:
        return replace(standing, reason=reason)
    # What led to a trip is not held against the time after it, nor counted for it.
    first_s = trusted[0].at_s if trusted else at_s
    trusted_from_s = (
        at_s if state == "tripped" else first_s if before.state == "tripped" else before.trusted_from_s
    )
    return replace(standing, state=state, reason=reason, since_s=at_s, trusted_from_s=trusted_from_s)


def enough(budget: float) -> int:
    """So many audits without an error show, at 90% confidence, that the budget holds."""
    return math.ceil(math.log(0.1) / math.log(1 - budget))


def _next(
    standing: Standing,
    before: Standing,
    hits: Sequence[Audit],
    recent: Sequence[Audit],
    rules: Rules,
    reporters: int,
) -> tuple[State, str]:
    if reporters >= _REPORTERS_TO_TRIP:
        return "tripped", "reported-wrong"
    if before.state == "tripped":
        if len(recent) < enough(rules.budget):
            return "tripped", "not-enough-evidence"
        if sum(not audit.is_right for audit in recent) > _AUDITED_SHARE * rules.budget * len(recent):
            return "tripped", "over-budget"
    elif any(_is_surprising(run, rules.budget) for run in (recent, hits[-_SHORT_RUN:])):
        return "tripped", "over-budget"
    if rules.policy == "learned" and standing.least_score is None:
        return "learning", "not-enough-evidence"
    return "on", "within-budget" if len(recent) >= enough(rules.budget) else "few-audits"


def _learned(standing: Standing, ledger: Ledger, trusted: Sequence[Audit], rules: Rules) -> Standing:
    if len(trusted) < _LEAST_TO_LEARN:
        return standing if standing.state == "tripped" else replace(standing, least_score=None)
    rows = np.array([audit.row for audit in trusted])
    is_right = np.array([audit.is_right for audit in trusted])
    weights: Weights = learn(rows, is_right, prior(rows.shape[1]))
    traffic = np.array([*ledger.traffic, *_misses(trusted)] or [audit.row for audit in trusted])
    bound = lowest_score(weights, traffic=traffic, audited=rows, is_right=is_right, budget=rules.budget)
    return replace(standing, weights=weights, least_score=None if bound is None else bound.score)


def _misses(trusted: Sequence[Audit]) -> list[Row]:
    """What misses near a stored question looked like, each audit standing for all that it was drawn from."""
    rows = []
    for audit in trusted:
        if audit.source == "shadow":
            rows += [audit.row] * min(_MOST_COPIES, round(1 / audit.draw))
    return rows


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
