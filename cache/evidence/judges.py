"""Decides whether two answers say the same, without asking anybody: the judge that is always there.

It compares the answers, not the questions: where the stored answer says what the fresh one says, serving it was
right. It errs; how often is measured against labels, and what it finds is always shown as its finding.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..acceptance import first_veto, read
from ..embed import EmbedQueue, NoEmbedder
from ..errors import EmbedderBusy, UnfitText
from ..interfaces import Exchange

_LEAST_COSINE = 0.85
_DEADLINE_S = 10.0  # nobody waits for it
# What differs between two wordings of one answer all the time, and says nothing: order and signs of presentation.
_HARMLESS = frozenset({"order", "symbol"})


class AgreementJudge:
    """`Judge` by the answers' similarity, numbers, negations and contrasts. `least_cosine` is for their embeddings."""

    name = "agreement"

    def __init__(
        self,
        embed: EmbedQueue | NoEmbedder,
        *,
        least_cosine: float = _LEAST_COSINE,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._embed = embed
        self._least_cosine = least_cosine
        self._now = now

    async def agrees(self, exchange: Exchange) -> bool | None:
        one, other = exchange.fresh_answer.strip(), exchange.stored_answer.strip()
        if one == other:
            return True
        veto = first_veto(read(one), read(other))
        if veto is not None and veto not in _HARMLESS:
            return False
        deadline = self._now() + _DEADLINE_S
        try:
            first = await self._embed.embed(one, deadline=deadline, is_background=True)
            second = await self._embed.embed(other, deadline=deadline, is_background=True)
        except (EmbedderBusy, UnfitText):
            return None  # too long to be read, or no time: no finding is better than a guess
        return float(first.vector @ second.vector) >= self._least_cosine
