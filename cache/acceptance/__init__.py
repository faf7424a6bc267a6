"""Is the stored question the same question? Vetoes, then a score."""

from .reading import Reading, read
from .score import Policy
from .vetoes import first_veto

__all__ = ["Policy", "Reading", "first_veto", "read"]
