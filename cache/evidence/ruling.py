"""Decides on the path whether a stored answer is served, by the namespace's rules, its standing, and past offences.

Reads only what is in memory. What it withholds though the rules accept it (in shadow mode, while learning, after a
trip) is told apart from what they refuse: those are would-be hits, and audits of them count.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from ..acceptance import Policy, Reading, first_veto, read
from ..acceptance.features import Features, features, most
from ..acceptance.words import WordStatistics
from ..model import Question, Verdict
from .blocked import Blocked
from .events import Row
from .learning import Weights, score
from .ledger import Standing
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
        self.standing = Standing(state="learning" if rules.policy == "learned" else "on", reason="few-audits")
        self.words = WordStatistics(secret)
        self.raised: Mapping[int, float] = {}
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
        self, new: Reading, stored_text: str, cosine: float, *, question: Question, ids: tuple[int, int]
    ) -> Verdict:
        """`ids` are those of the question and of the stored entry."""
        verdict = self._by_policy(new, stored_text, cosine, question)
        if not verdict.is_accepted:
            return verdict
        if self.blocked.is_pair(*ids):
            return replace(verdict, is_accepted=False, reason="blocked")
        if cosine <= self.raised.get(ids[1], _NO_MINIMUM):
            return replace(verdict, is_accepted=False, reason="raised")
        if question.is_shadow:
            return replace(verdict, is_accepted=False, reason="shadow")
        if self.standing.state == "tripped":
            return replace(verdict, is_accepted=False, reason="tripped")
        if self.standing.state == "learning" and self.rules.is_strict:
            return replace(verdict, is_accepted=False, reason="learning")
        return verdict

    def features(self, new: Reading, stored_text: str, cosine: float) -> Features:
        return features(new, read(stored_text), cosine, self.words)

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
        if score(most(cosine).row(), weights.mean) < least:
            return Verdict(False, "below-score", cosine, minimum, {"cosine": cosine, "least_score": least})
        stored = read(stored_text)
        found = features(new, stored, cosine, self.words)
        value = score(found.row(), weights.mean)
        facts = {**found.by_name(), "score": value, "least_score": least}
        if value < least:
            return Verdict(False, "below-score", cosine, minimum, facts)
        if veto := first_veto(new, stored):
            return Verdict(False, f"veto-{veto}", cosine, minimum, facts)
        return Verdict(True, "accepted", cosine, minimum, facts)


def row_of(verdict: Verdict) -> Row | None:
    """The features it was scored by; None where it was not."""
    if "shared" not in verdict.features:
        return None
    return Features(verdict.similarity, verdict.features["shared"]).row()
