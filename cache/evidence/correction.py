"""Corrects what a judge found for the judge's own errors, as they were measured on answers that somebody labelled.

A judge that calls wrong answers right hides errors (false agreement), one that calls right answers wrong makes them up
(false disagreement). Where a share F is wrong, it finds F (1 - false_agree) + (1 - F) false_disagree of it wrong.
Of each rate that end of its 90% interval is taken at which F is larger: little measured is little believed. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..model import Value
from .ledger import Interval, Share, wilson

_LEAST_CLARITY = 0.2


class JudgeRates(Value, frozen=True):
    """How a judge did on labelled answers: of `wrong` ones it called `false_agrees` right, of `right` ones
    `false_disagrees` wrong."""

    wrong: int
    false_agrees: int
    right: int
    false_disagrees: int

    @property
    def false_agree(self) -> Share:
        return wilson(self.false_agrees, self.wrong)

    @property
    def false_disagree(self) -> Share:
        return wilson(self.false_disagrees, self.right)


Measured = Callable[[str], JudgeRates | None]  # by the judge's name


def enough(budget: float) -> int:
    """So many audits without an error show, at 90% confidence, that the budget holds."""
    return math.ceil(math.log(0.1) / math.log(1 - budget))


class Bar(NamedTuple):
    """What findings must show so that a budget holds: at most this `share` wrong, of no fewer than `audits`."""

    share: float
    audits: int


class Correction(Value, frozen=True):
    """Of findings of judges that are measured; without rates, of a judge that is taken at its word."""

    false_agree: float = 0.0
    false_disagree: float = 0.0
    is_measured: bool = False

    @property
    def clarity(self) -> float:
        """How much more often it finds wrong what is wrong than what is right; 1 for a judge that never errs."""
        return 1 - self.false_agree - self.false_disagree

    @property
    def is_usable(self) -> bool:
        """A judge whose word hardly depends on the answers shows nothing, whatever it finds."""
        return self.clarity >= _LEAST_CLARITY

    def bar(self, budget: float) -> Bar:
        """Where errors hide, it takes more audits without one to show, at 90% confidence, that the budget holds."""
        hidden = budget * self.clarity
        return Bar(self.false_disagree + hidden, enough(hidden))

    def corrected(self, found: float) -> float:
        """The share that is wrong where it found this share."""
        return min(1.0, max(0.0, (found - self.false_disagree) / self.clarity))

    def interval(self, found: Share) -> Interval | None:
        """None for a judge that is not measured, or where nothing was found."""
        if not (self.is_measured and found.audits):
            return None
        share = self.corrected(found.wrong / found.audits)
        return share, self.corrected(found.low), self.corrected(found.high)


def correction_of(rates: JudgeRates | None) -> Correction:
    if rates is None:
        return Correction()
    return Correction(rates.false_agree.high, rates.false_disagree.low, is_measured=True)


def usable(judges: Iterable[str], measured: Measured) -> frozenset[str]:
    """Those of them whose findings count."""
    return frozenset(judge for judge in set(judges) if correction_of(measured(judge)).is_usable)


def of_all(judges: Iterable[str], measured: Measured) -> Correction:
    """For findings of several judges, whoever of them found what: the most careful of each. Measured if all are."""
    each = [correction_of(measured(judge)) for judge in set(judges)]
    return Correction(
        max((one.false_agree for one in each), default=0.0),
        min((one.false_disagree for one in each), default=0.0),
        is_measured=bool(each) and all(one.is_measured for one in each),
    )
