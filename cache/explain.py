"""Explains one question without answering it: what each tier finds, how near what is, and what speaks against it."""

from __future__ import annotations

from collections.abc import Mapping

from .acceptance import read
from .acceptance.features import ALONE
from .acceptance.vetoes import all_vetoes
from .errors import EmbedderBusy, StoreUnavailable, UnfitText
from .lookup import Lookup, Parts
from .model import Entry, Hit, Question, Value, Verdict

_EMBED_S = 5.0
_STORE_S = 2.0


class Neighbour(Value, frozen=True):
    """A stored question near the asked one. `vetoes`: of each whether it applies; the verdict names the first that
    does. `score` by what was learned. `root_id`: whose answer it was found to share.
    `has_equal_form`: the canonical forms are equal, which decides in Chinese and is only worth knowing in English."""

    entry: Entry
    similarity: float
    verdict: Verdict
    vetoes: Mapping[str, bool]
    age_s: float
    score: float | None
    root_id: int | None
    has_equal_form: bool


class Explanation(Value, frozen=True):
    """It `would` be answered so, for this reason, by this entry where there is one. `canonical_id` is None where no
    canonical form is compared."""

    would: str
    reason: str | None
    question_id: int
    canonical_id: int | None
    entry: Entry | None
    neighbours: tuple[Neighbour, ...]


async def explain(
    parts: Parts,
    lookup: Lookup,
    question: Question,
    *,
    question_id: int,
    canonical_id: int | None,
    space: bytes,
) -> Explanation:
    """Raises nothing that a look-up does not: what cannot be asked now has no neighbours."""
    outcome = await lookup.result()
    neighbours = await _neighbours(parts, question, question_id=question_id, space=space)
    if isinstance(outcome, Hit):
        would = "HIT-EXACT" if outcome.is_exact else "HIT-SEMANTIC"
        return Explanation(would, outcome.reason, question_id, canonical_id, outcome.entry, neighbours)
    return Explanation("MISS", outcome.reason, question_id, canonical_id, None, neighbours)


async def _neighbours(
    parts: Parts, question: Question, *, question_id: int, space: bytes
) -> tuple[Neighbour, ...]:
    found = parts.spaces.find(space)
    if question.skip_semantic or parts.embed.skip_reason or found is None:
        return ()
    now = parts.now()
    try:
        embedded = await parts.embed.embed(question.text, deadline=now + _EMBED_S, search=found.search)
        entries = await parts.entries.fetch(
            question.partition,
            [entry_id for entry_id, _ in embedded.neighbours],
            deadline=parts.now() + _STORE_S,
        )
    except (UnfitText, EmbedderBusy, StoreUnavailable):
        return ()
    ruling, reading = parts.evidence.of(question.partition.namespace), read(question.text)
    beside = ruling.around(embedded.neighbours)
    beside += [ALONE] * (len(entries) - len(beside))
    found_near = []
    for (_, cosine), entry, around in zip(embedded.neighbours, entries, beside, strict=True):
        if entry is None:
            continue
        stored = read(entry.question)
        found_near.append(
            Neighbour(
                entry,
                cosine,
                ruling.judge(
                    reading, entry, cosine, question=question, question_id=question_id, beside=around
                ),
                all_vetoes(reading, stored),
                max(0.0, parts.wall() - entry.created_at_s),
                ruling.score(reading, stored, cosine, around),
                ruling.aliases.get(entry.entry_id),
                reading.canonical == stored.canonical,
            )
        )
    return tuple(found_near)
