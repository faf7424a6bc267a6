"""Decides on the path whether a stored answer is served, by the namespace's rules, its standing, and past offences.

Reads only what is in memory. What it withholds though the rules accept it (in shadow mode, while learning, after a
trip) is told apart from what they refuse: those are would-be hits, and audits of them count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from ..acceptance import Around, Policy, Reading, WordStatistics, around, features, first_veto, read
from ..acceptance.features import ALONE, by_name, most
from ..model import Entry, Question, Verdict
from .blocked import Blocked
from .events import Row
from .learning import Weights, score
from .ledger import UNAUDITED, Standing
from .standing import Rules

# Below it two questions are hardly ever the same: not worth fetching, scoring or auditing.
NEAR = 0.70
_NO_MINIMUM = -1.0
_EQUAL = 1.0
WITHHELD = frozenset({"shadow", "learning", "tripped"})


class Ruling:
    """Of one namespace. Its owner (books.py) replaces what is learned as it comes."""

    def __init__(self, rules: Rules, blocked: Blocked | None = None, *, secret: bytes = b"") -> None:
        self.rules = rules
        self.blocked = Blocked() if blocked is None else blocked
        self.standing = Standing() if rules.policy == "learned" else UNAUDITED
        self.words = WordStatistics(secret)
        self.raised: Mapping[int, tuple[float, float]] = {}  # by entry: the similarity, and when it was wrong
        self.aliases: Mapping[int, int] = {}  # by entry: whose answer it was found to share
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

    def around(self, neighbours: Sequence[tuple[int, float]]) -> list[Around]:
        """What else is near, for each neighbour (id, cosine), best first, that is near enough to matter."""
        near = [(entry_id, cosine) for entry_id, cosine in neighbours if cosine >= NEAR]
        answers = [self.aliases.get(entry_id, entry_id) for entry_id, _ in near]
        cosines = [cosine for _, cosine in near]
        return [around(at, answers=answers, cosines=cosines) for at in range(len(near))]

    def can_beat(self, verdict: Verdict, cosine: float, beside: Around) -> bool:
        """Whether a neighbour of this cosine could be a better answer than one that the rules accept."""
        learned = self._learned
        if learned is None:
            return False
        return score(most(cosine, beside).row(), learned[0].mean) > verdict.features["score"]

    def judge(
        self,
        new: Reading,
        stored: Entry,
        cosine: float,
        *,
        question: Question,
        question_id: int,
        beside: Around = ALONE,
    ) -> Verdict:
        verdict = self._by_policy(new, stored.question, cosine, question, beside)
        return self._unless_withheld(verdict, stored, question=question, question_id=question_id)

    def judge_alike(self, new: Reading, stored: Entry, *, question: Question, question_id: int) -> Verdict:
        """On a stored question of the same canonical form: as near as can be, whatever an embedder makes of it."""
        if veto := first_veto(new, read(stored.question)):
            return Verdict(False, f"veto-{veto}", _EQUAL, _EQUAL)
        verdict = Verdict(True, "canonical", _EQUAL, _EQUAL)
        return self._unless_withheld(verdict, stored, question=question, question_id=question_id)

    def may_answer(self, new: Reading, root: Entry, cosine: float, *, question_id: int) -> bool:
        """Whether the entry that an alias belongs to may answer a question of this cosine to the alias."""
        is_refused = self.blocked.is_pair(question_id, root.entry_id) or self._is_raised(root, cosine)
        return not is_refused and first_veto(new, read(root.question)) is None

    def _unless_withheld(
        self, verdict: Verdict, stored: Entry, *, question: Question, question_id: int
    ) -> Verdict:
        if not verdict.is_accepted:
            return verdict
        if self.blocked.is_pair(question_id, stored.entry_id):
            return replace(verdict, is_accepted=False, reason="blocked")
        if self._is_raised(stored, verdict.similarity):
            return replace(verdict, is_accepted=False, reason="raised")
        if question.is_shadow:
            return replace(verdict, is_accepted=False, reason="shadow")
        if self.standing.state == "tripped":
            return replace(verdict, is_accepted=False, reason="tripped")
        if self.standing.state == "learning" and self.rules.is_strict:
            return replace(verdict, is_accepted=False, reason="learning")
        return verdict

    def row(self, new: Reading, stored: Reading, cosine: float, beside: Around) -> Row:
        """What the pair is scored by."""
        return features(new, stored, cosine, self.words, beside).row()

    def score(self, new: Reading, stored: Reading, cosine: float, beside: Around) -> float | None:
        """By what was learned; None where nothing is."""
        learned = self._learned
        return None if learned is None else score(self.row(new, stored, cosine, beside), learned[0].mean)

    def _is_raised(self, stored: Entry, cosine: float) -> bool:
        offence = self.raised.get(stored.entry_id)
        return offence is not None and cosine <= offence[0] and stored.created_at_s <= offence[1]

    @property
    def _learned(self) -> tuple[Weights, float] | None:
        standing = self.standing
        if self.rules.policy != "learned" or standing.weights is None or standing.least_score is None:
            return None
        return standing.weights, standing.least_score

    def _by_policy(
        self, new: Reading, stored_text: str, cosine: float, question: Question, beside: Around
    ) -> Verdict:
        learned = self._learned
        if learned is None:
            return self._policy.judge(new, stored_text, cosine, min_similarity=question.min_similarity)
        weights, least = learned
        minimum = self.minimum(question)
        if not cosine >= minimum:
            return Verdict(False, "below-threshold", cosine, minimum, {"cosine": cosine})
        if score(most(cosine, beside).row(), weights.mean) < least:  # whatever words they share
            return Verdict(False, "below-score", cosine, minimum, {"cosine": cosine, "least_score": least})
        stored = read(stored_text)
        found = features(new, stored, cosine, self.words, beside)
        value = score(found.row(), weights.mean)
        facts = {**found.by_name(), "score": value, "least_score": least}
        if value < least:
            return Verdict(False, "below-score", cosine, minimum, facts)
        if veto := first_veto(new, stored):
            return Verdict(False, f"veto-{veto}", cosine, minimum, facts)
        return Verdict(True, "accepted", cosine, minimum, facts)


def row_in(verdict: Verdict) -> Row | None:
    """What the pair was scored by; None where it was not."""
    return by_name(verdict.features).row() if "shared" in verdict.features else None
