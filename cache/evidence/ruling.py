"""Decides on the path whether a stored answer is served, by the namespace's rules, its standing, and past offences.

Reads only what is in memory. What it withholds though the rules accept it (in shadow mode, while learning, after a
trip) is told apart from what they refuse: those are would-be hits, and audits of them count.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..acceptance import Policy, Reading, first_veto, read
from ..acceptance.features import features
from ..acceptance.words import WordStatistics
from ..model import Entry, Question, Verdict
from .blocked import Blocked
from .events import Row
from .learning import Weights, score
from .ledger import UNAUDITED, Standing
from .standing import Rules

# Below it two questions are hardly ever the same: not worth fetching, scoring or auditing.
NEAR = 0.75
_NO_MINIMUM = -1.0
WITHHELD = frozenset({"shadow", "learning", "tripped"})


class Ruling:
    """Of one namespace. Its owner (books.py) replaces what is learned as it comes."""

    def __init__(self, rules: Rules, blocked: Blocked | None = None, *, secret: bytes = b"") -> None:
        self.rules = rules
        self.blocked = Blocked() if blocked is None else blocked
        self.standing = Standing() if rules.policy == "learned" else UNAUDITED
        self.words = WordStatistics(secret)
        self.raised: Mapping[int, tuple[float, float]] = {}  # by entry: the similarity, and when it was wrong
        self._policy = Policy("fixed" if rules.policy == "fixed" else "guarded", rules.threshold)

    def __repr__(self) -> str:
        standing = self.standing
        return f"Ruling({self.rules.policy}, {standing.state}: {standing.reason}, version {standing.version})"

    def minimum(self, question: Question) -> float:
        """The least cosine that is worth a closer look."""
        if self._learned is None:
            return self._policy.minimum(question.min_similarity)
        asked = _NO_MINIMUM if question.min_similarity is None else question.min_similarity
        return max(NEAR, asked)

    def judge(
        self, new: Reading, stored: Entry, cosine: float, *, question: Question, question_id: int
    ) -> Verdict:
        verdict = self._by_policy(new, stored.question, cosine, question)
        if not verdict.is_accepted:
            return verdict
        if self.blocked.is_pair(question_id, stored.entry_id):
            return replace(verdict, is_accepted=False, reason="blocked")
        if self._is_raised(stored, cosine):
            return replace(verdict, is_accepted=False, reason="raised")
        if question.is_shadow:
            return replace(verdict, is_accepted=False, reason="shadow")
        if self.standing.state == "tripped":
            return replace(verdict, is_accepted=False, reason="tripped")
        if self.standing.state == "learning" and self.rules.is_strict:
            return replace(verdict, is_accepted=False, reason="learning")
        return verdict

    def row(self, new: Reading, stored_text: str, cosine: float) -> Row:
        """What the pair is scored by."""
        return row_of(cosine, features(new, read(stored_text), cosine, self.words).shared)

    def _is_raised(self, stored: Entry, cosine: float) -> bool:
        offence = self.raised.get(stored.entry_id)
        return offence is not None and cosine <= offence[0] and stored.created_at_s <= offence[1]

    @property
    def _learned(self) -> tuple[Weights, float] | None:
        standing = self.standing
        if self.rules.policy != "learned" or standing.weights is None or standing.least_score is None:
            return None
        return standing.weights, standing.least_score

    def _by_policy(self, new: Reading, stored_text: str, cosine: float, question: Question) -> Verdict:
        learned = self._learned
        if learned is None:
            return self._policy.judge(new, stored_text, cosine, min_similarity=question.min_similarity)
        weights, least = learned
        minimum = self.minimum(question)
        if not cosine >= minimum:
            return Verdict(False, "below-threshold", cosine, minimum, {"cosine": cosine})
        if score(row_of(cosine, 1.0), weights.mean) < least:  # whatever words they share
            return Verdict(False, "below-score", cosine, minimum, {"cosine": cosine, "least_score": least})
        stored = read(stored_text)
        shared = features(new, stored, cosine, self.words).shared
        value = score(row_of(cosine, shared), weights.mean)
        facts = {"cosine": cosine, "shared": shared, "score": value, "least_score": least}
        if value < least:
            return Verdict(False, "below-score", cosine, minimum, facts)
        if veto := first_veto(new, stored):
            return Verdict(False, f"veto-{veto}", cosine, minimum, facts)
        return Verdict(True, "accepted", cosine, minimum, facts)


def row_of(cosine: float, shared: float) -> Row:
    """A constant, the cosine, and the rarity of the rarest word that both have: in steps of a size that matters.

    These two carry a learned score; what else was measured did not earn its weight.
    """
    return (1.0, (cosine - 0.90) / 0.05, (shared - 0.6) / 0.2)


def row_in(verdict: Verdict) -> Row | None:
    """What the pair was scored by; None where it was not."""
    shared = verdict.features.get("shared")
    return None if shared is None else row_of(verdict.similarity, shared)
