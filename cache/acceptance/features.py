"""What two questions have in common, in numbers that a score can be learned from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .reading import Reading
from .words import WordStatistics

Row = tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Features:
    """`shared` is the rarity of the rarest word that stands in both questions (0: none), in [0, 1]."""

    cosine: float
    shared: float

    def row(self) -> Row:
        """As the score weighs them: with a constant in front, and steps of a size that matters as units."""
        return (1.0, (self.cosine - 0.90) / 0.05, (self.shared - 0.6) / 0.2)

    def by_name(self) -> Mapping[str, float]:
        return {"cosine": self.cosine, "shared": self.shared}


WIDTH = 3


def features(new: Reading, stored: Reading, cosine: float, words: WordStatistics) -> Features:
    both = new.words & stored.words
    return Features(cosine, max((words.rarity(word) for word in both), default=0.0))


def most(cosine: float) -> Features:
    """What no pair of this cosine exceeds."""
    return Features(cosine, 1.0)
