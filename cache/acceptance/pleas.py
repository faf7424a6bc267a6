"""Reads what somebody says they cannot do, and what somebody asks the way to: "I can't find my pin", "where is it?"."""

from __future__ import annotations

import re

from .contrasts import stem

_UNABLE = re.compile(
    r"\b(?:(?:i|we) (?:can't|cannot|can not|cant|couldn't|could not)|(?:i'm|i am|we're|we are) (?:unable|not able))\b"
)
_WHAT_TO_DO = re.compile(r"\bwhat (?:do|should|can|must) (?:i|we) do(?: if| when)?\b")
# "I can't pay my rent, will I be evicted?" asks what follows, not for the way.
_ASKING = re.compile(r"\b(?:why|when|which|who|will|would|is|are|does|did|if)\b")
_SOUGHT = re.compile(
    r"\b(?:how (?:do|can|could|would|should) (?:i|we|you|one)|how to|help (?:me|us)?(?: to)?"
    r"|(?:need|have) to do to|where (?:do|can|could) (?:i|we|you)) (?P<way>\w+)"
    r"|(?P<where>\bwhere (?:is|are)\b)"
)
_TO_WHERE = frozenset(stem(word) for word in ("find", "see", "locate"))


def unable_to(lowered: str, denied: frozenset[str]) -> frozenset[str]:
    """What of the denied somebody asks for by saying that they cannot."""
    is_plea = _UNABLE.search(lowered) and not _ASKING.search(_WHAT_TO_DO.sub("", lowered))
    return denied if is_plea else frozenset()


def sought(lowered: str, stems: dict[str, str]) -> frozenset[str]:
    """Stems of the verbs that the way to is asked for."""
    found: set[str] = set()
    for match in _SOUGHT.finditer(lowered):
        found |= _TO_WHERE if match["where"] else {stems.get(match["way"], match["way"])}
    return frozenset(found)
