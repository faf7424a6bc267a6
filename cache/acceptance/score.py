"""Decides whether a stored question may answer a new one, and says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..model import Verdict
from .reading import Reading, read
from .vetoes import first_veto

_NO_MINIMUM = -1.0


@dataclass(frozen=True, slots=True)
class Policy:
    """`guarded`: vetoes, then the cosine. `fixed`: the cosine alone, which serves near-opposites."""

    name: Literal["guarded", "fixed"] = "guarded"
    threshold: float = 0.95

    def minimum(self, min_similarity: float | None) -> float:
        """The least cosine that can be accepted; a caller can only ask for more."""
        return max(self.threshold, _NO_MINIMUM if min_similarity is None else min_similarity)

    def judge(
        self, new: Reading, stored_text: str, cosine: float, *, min_similarity: float | None = None
    ) -> Verdict:
        minimum = self.minimum(min_similarity)
        features = {"cosine": cosine}
        if not cosine >= minimum:  # so put, a NaN is never enough
            return Verdict(False, "below-threshold", cosine, minimum, features)
        if self.name == "guarded" and (veto := first_veto(new, read(stored_text))):
            return Verdict(False, f"veto-{veto}", cosine, minimum, features)
        return Verdict(True, "accepted", cosine, minimum, features)
