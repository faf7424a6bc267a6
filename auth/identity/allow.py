"""Decides whether a name is on an allow list of exact names and globs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

# What model names are made of, and the two wildcards. Brackets would be a third kind, which nobody means.
_PATTERN = re.compile(r"[A-Za-z0-9._:/@+*?-]{1,256}")


def is_allowed(patterns: Sequence[str], name: str) -> bool:
    """Whether one of the patterns is the name or a glob (`*`, `?`) that covers all of it. Case counts."""
    if "*" in patterns or name in patterns:
        return True
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def check_patterns(patterns: Sequence[str]) -> None:
    """Raises ValueError, in words for an admin, for a pattern that could match no model or not what it says."""
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern):
            raise ValueError(
                f"The model {pattern!r} must be 1 to 256 letters, digits and ._:/@+- with the wildcards * and ?."
            )
