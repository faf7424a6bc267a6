"""Lets a request in: what is taken from its limits when it comes, and what is settled when it goes.

A request reserves what it is likely to use, before anybody has counted, and pays for what it did use. Whoever
gets a stored or a shared answer pays no tokens; whoever leaves a stream pays for what was sent until then.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable
from dataclasses import dataclass

from auth import (
    Estimate,
    Grant,
    Limiter,
    LimitsUnavailable,
    Prices,
    Principal,
    Refusal,
    UsualOutputs,
    estimate,
)

from . import notes
from .body import Json
from .data.wire import Reply
from .errors import from_limits, from_refusal
from .telemetry.timeline import Timeline
from .usage.recorder import UsageRecorder
from .usage.store import Counts


class Admissions:
    """Admits requests. `charges_hits`: whether a stored answer costs the tokens that it cost when it was made."""

    def __init__(
        self,
        limiter: Limiter,
        *,
        usage: UsageRecorder,
        prices: Prices,
        charges_hits: bool = False,
    ) -> None:
        self._limiter = limiter
        self._usage = usage
        self._prices = prices
        self._usual = UsualOutputs()
        self._charges_hits = charges_hits

    def begin(
        self, principal: Principal, values: dict[str, Json], *, body_bytes: int, deadline: float
    ) -> Admission:
        """The command leaves now; await `decided` for the answer. `values` are the body's members as far as known."""
        reserved = estimate(
            body_bytes,
            max_tokens=_most_tokens(values),
            usual_output=self._usual.of(principal.key_id),
            model_limit=None,
        )
        model = values.get("model")
        cost = self._cost(model, reserved) if isinstance(model, str) else 0.0
        taking = self._limiter.take(principal, tokens=reserved.tokens, cost=cost, deadline=deadline)
        return Admission(self, principal, reserved, taking)

    def settle(
        self, grant: Grant, principal: Principal, reserved: Estimate, timeline: Timeline, reply: Reply
    ) -> None:
        used = self._used(reserved, timeline, reply)
        # What generates nothing, such as embeddings, says nothing of how long a key's answers are.
        if timeline.cache_word in ("miss", "bypass", "refresh") and timeline.output_tokens:
            self._usual.note(principal.key_id, timeline.output_tokens)
        cost = self._cost(timeline.model, used) if timeline.model else 0.0
        self._limiter.settle(grant, tokens=used.tokens, cost=cost)
        self.count(principal, _counts(timeline, reply, used, cost))

    def count(self, principal: Principal, counts: Counts) -> None:
        self._usage.note(
            tenant=principal.tenant, service=principal.service, key_id=principal.key_id, counts=counts
        )

    def _used(self, reserved: Estimate, timeline: Timeline, reply: Reply) -> Estimate:
        is_hit = timeline.cache_word.startswith("hit")
        if timeline.cache_word == "shared" or (is_hit and not self._charges_hits):
            return Estimate(0, 0)
        if timeline.input_tokens is not None and timeline.output_tokens is not None:
            return Estimate(timeline.input_tokens, timeline.output_tokens)
        # A stream that was left or broke off: nobody counted its tokens, but a chunk is about one of them.
        return Estimate(reserved.input_tokens, reply.sent_events) if reply.sent_events else Estimate(0, 0)

    def _cost(self, model: str | None, tokens: Estimate) -> float:
        return self._prices.cost(
            model or "", input_tokens=tokens.input_tokens, output_tokens=tokens.output_tokens
        )


@dataclass(slots=True)
class Admission:
    """One request's share of its limits. `settle` on every exit once it was decided."""

    _admissions: Admissions
    _principal: Principal
    _reserved: Estimate
    _taking: Awaitable[Grant | Refusal]
    _grant: Grant | None = None

    async def decided(self, timeline: Timeline, reply: Reply, *, started: float) -> None:
        """Returns when the request may go on. Raises ApiError (429, or 503 where the limits cannot be asked)."""
        try:
            answer = await self._taking
        except LimitsUnavailable as error:
            raise from_limits(error) from error
        notes.limit(timeline, reply, answer, started, time.monotonic())
        if isinstance(answer, Refusal):
            self._admissions.count(self._principal, Counts(requests=1, limited=1))
            raise from_refusal(answer)
        self._grant = answer

    def settle(self, timeline: Timeline, reply: Reply) -> None:
        if self._grant is not None:
            self._admissions.settle(self._grant, self._principal, self._reserved, timeline, reply)


def _counts(timeline: Timeline, reply: Reply, used: Estimate, cost: float) -> Counts:
    """For the usage report. What failed, or broke off, has no whole reply by now."""
    word = timeline.cache_word
    counts = Counts(requests=1, cost=cost)
    if reply.status != 200 or not reply.is_ended:
        counts.failed = 1
    if word.startswith("hit"):
        counts.hits_exact, counts.hits_semantic = int(word == "hit-exact"), int(word == "hit-semantic")
        counts.saved_input_tokens = timeline.input_tokens or 0
        counts.saved_output_tokens = timeline.output_tokens or 0
    elif word == "shared":
        counts.shared = 1
    else:
        counts.input_tokens, counts.output_tokens = used
    return counts


def _most_tokens(values: dict[str, Json]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens", "max_output_tokens"):
        most = values.get(name)
        if isinstance(most, int) and not isinstance(most, bool) and most >= 0:
            return most
    return None
