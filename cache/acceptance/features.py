"""What two questions have in common, in numbers that a score can be learned from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .reading import Reading
from .words import WordStatistics

Row = tuple[float, ...]

WIDTH = 6
# Where no other answer is near: the distance at which one would not matter any more.
_FAR = 0.5


@dataclass(frozen=True, slots=True)
class Around:
    """What else is near the new question. `support`: how many other neighbours lead to the same answer (aliases of
    it). `rival`: the cosine of the nearest one that leads to another answer, 0.5 if none is nearer than that."""

    support: int = 0
    rival: float = _FAR


ALONE = Around()


@dataclass(frozen=True, slots=True)
class Features:
    """`shared` is the rarity of the rarest word that stands in both questions (0: none), `unmatched` that of the
    rarest that stands in one alone; both in [0, 1]."""

    cosine: float
    shared: float
    unmatched: float = 0.0
    around: Around = ALONE

    def row(self) -> Row:
        """As the score weighs them: with a constant in front, and steps of a size that matters as units."""
        return (
            1.0,
            (self.cosine - 0.90) / 0.05,
            (self.shared - 0.6) / 0.2,
            (self.unmatched - 0.6) / 0.2,
            math.log1p(self.around.support) - 0.5,
            (self.cosine - self.around.rival) / 0.05,
        )

    def by_name(self) -> Mapping[str, float]:
        return {
            "cosine": self.cosine,
            "shared": self.shared,
            "unmatched": self.unmatched,
            "support": float(self.around.support),
            "rival": self.around.rival,
        }


def by_name(named: Mapping[str, float]) -> Features:
    """Back from `Features.by_name`."""
    around = Around(int(named["support"]), named["rival"])
    return Features(named["cosine"], named["shared"], named["unmatched"], around)


def features(
    new: Reading, stored: Reading, cosine: float, words: WordStatistics, around: Around = ALONE
) -> Features:
    shared = max((words.rarity(word) for word in new.words & stored.words), default=0.0)
    unmatched = max((words.rarity(word) for word in new.words ^ stored.words), default=0.0)
    return Features(cosine, shared, unmatched, around)


def most(cosine: float, around: Around = ALONE) -> Features:
    """What no pair of this cosine exceeds, as long as a rare word in one alone is no argument against it."""
    return Features(cosine, 1.0, 1.0, around)


def around(at: int, *, answers: Sequence[int], cosines: Sequence[float]) -> Around:
    """Of neighbour number `at`; `answers` names for each neighbour the entry whose answer it leads to."""
    same = [answer == answers[at] for answer in answers]
    others = [cosine for is_same, cosine in zip(same, cosines, strict=True) if not is_same]
    return Around(sum(same) - 1, max(others, default=_FAR))
