"""Finds what keeps requests from hitting, in a sample of decisions: refusals, questions that never repeat, parts that
always differ. Pure.

A date or a user's name in the system prompt makes a partition of its own out of every request; that is seen here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..evidence.decisions import Decision

_MOST_SHOWN = 10


def outcomes(decisions: Sequence[Decision]) -> dict[str, Any]:
    """How many of them hit, and what became of them, the most frequent first."""
    reasons = Counter(_reason(decision) for decision in decisions)
    return {
        "requests": len(decisions),
        "hits": sum(decision.outcome == "hit" for decision in decisions),
        "reasons": dict(reasons.most_common(_MOST_SHOWN)),
    }


def why_no_hits(decisions: Sequence[Decision]) -> dict[str, Any]:
    partitions = Counter(decision.partition for decision in decisions)
    questions = Counter(decision.question_id for decision in decisions)
    varying = _varying([decision.parts for decision in decisions if decision.parts])
    return {
        "object": "cache.why",
        **outcomes(decisions),
        "partitions": len(partitions),
        "partitions_seen_once": _share(partitions),
        "questions_seen_once": _share(questions),
        "varied_most": varying[0]["part"] if varying else None,
        "varying": varying,
    }


def _reason(decision: Decision) -> str:
    return f"hit-{decision.tier}" if decision.outcome == "hit" else decision.reason or "absent"


def _share(counted: Counter[bytes] | Counter[int]) -> float:
    """Of them that was seen once."""
    return sum(count == 1 for count in counted.values()) / len(counted) if counted else 0.0


def _varying(parts: Sequence[dict[str, bytes]]) -> list[dict[str, Any]]:
    """Parts of what must match exactly, those with most different values first."""
    values: dict[str, set[bytes]] = {}
    for each in parts:
        for name, digest in each.items():
            values.setdefault(name, set()).add(digest)
    seen = Counter(name for each in parts for name in each)
    differing = [name for name, digests in values.items() if len(digests) > 1 or seen[name] < len(parts)]
    differing.sort(key=lambda name: (-len(values[name]), name))
    return [
        {"part": name, "values": len(values[name]), "requests": seen[name]}
        for name in differing[:_MOST_SHOWN]
    ]
