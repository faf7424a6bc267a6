"""Is the stored question the same question? Vetoes, then a score."""

from .canonical import canonical, is_chinese
from .features import ALONE, WIDTH, Around, Features, around, features
from .reading import Reading, read
from .score import Policy
from .vetoes import all_vetoes, first_veto
from .words import WordStatistics
from .writing import is_same, normalised

__all__ = [
    "ALONE",
    "WIDTH",
    "Around",
    "Features",
    "Policy",
    "Reading",
    "WordStatistics",
    "all_vetoes",
    "around",
    "canonical",
    "features",
    "first_veto",
    "is_chinese",
    "is_same",
    "normalised",
    "read",
]
