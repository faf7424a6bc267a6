"""`/v1/cache/feedback`: a caller says that an answer from the cache was wrong. It is not given to that question again.

Only for requests of the caller's own tenant, and of its own service where the cache is that narrow. It counts as a
report, never as an audit: whoever complains most must not decide what the measured share of wrong hits is.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Literal

import msgspec
from redis.exceptions import RedisError

from auth import Principal
from cache import Partition, SemanticCache, Served, StoreUnavailable

from ..callers import Callers
from ..errors import NO_RETRY, InvalidRequest, NotFound, RateLimited, Unavailable, missing_scope
from ..evidence.decisions import Decision, Decisions
from ..telemetry.timeline import Timeline
from .wire import Reply, Request

PATH = "/v1/cache/feedback"

_BODY_BYTES = 4_096
_A_MINUTE = 30
_MINUTE_S = 60.0
_KEYS = 10_000
# Decisions are written in batches: that on an answer of a moment ago may be on its way still.
_TRIES, _PAUSE_S = 6, 0.1


class Feedback(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    request_id: str
    rating: Literal["wrong"]


class FeedbackDesk:
    """Takes at most 30 reports a minute of a key at this worker."""

    def __init__(
        self,
        *,
        callers: Callers,
        decisions: Decisions,
        cache: SemanticCache,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._callers = callers
        self._decisions = decisions
        self._cache = cache
        self._now = now
        self._recent: OrderedDict[str, deque[float]] = OrderedDict()

    async def answer(self, request: Request, reply: Reply, timeline: Timeline) -> None:
        """Raises ApiError."""
        principal = await self._callers.identify(request, timeline)
        if not principal.has_scope("feedback"):
            raise missing_scope("feedback")
        self._admit(principal.key_id)
        feedback = _read(await request.body(_BODY_BYTES))
        try:
            decision = await self._find(feedback.request_id, principal)
            rejected = await self._cache.reject(_served(decision), key=principal.key_id)
        except (OSError, RedisError, StoreUnavailable) as error:
            raise Unavailable(
                "The store does not answer; nothing is known to have changed.", code="store_unavailable"
            ) from error
        body = {
            "object": "cache.feedback",
            "request_id": decision.request_id,
            "blocked": rejected.is_blocked,
            "replicated": rejected.is_replicated,
        }
        # In force, and lost if the store fails over this moment: that is not yet what was asked for.
        await reply.whole(200 if rejected.is_replicated else 202, msgspec.json.encode(body))

    def _admit(self, key_id: str) -> None:
        recent = self._recent.setdefault(key_id, deque())
        self._recent.move_to_end(key_id)
        if len(self._recent) > _KEYS:
            self._recent.popitem(last=False)
        now = self._now()
        while recent and now - recent[0] >= _MINUTE_S:
            recent.popleft()
        if len(recent) >= _A_MINUTE:
            raise RateLimited(
                f"More than {_A_MINUTE} reports within a minute.",
                headers={"retry-after": str(int(_MINUTE_S - (now - recent[0])) + 1)},
            )
        recent.append(now)

    async def _find(self, request_id: str, principal: Principal) -> Decision:
        for _ in range(_TRIES):
            decision = await self._decisions.find(request_id)
            if decision is not None:
                if _is_own(decision, principal):
                    return decision
                break
            await asyncio.sleep(_PAUSE_S)
        # The same words for what is not there and for what is another's.
        raise NotFound(
            "Nothing is known of that request: give the x-echogate-request-id of an answer to this tenant that the "
            "cache was asked for, within cache.decisions_kept_s.",
            param="request_id",
            headers=NO_RETRY,
        )


def _read(body: bytes) -> Feedback:
    try:
        return msgspec.json.decode(body, type=Feedback)
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            'Expected {"request_id": "req_…", "rating": "wrong"}: ' + str(error)[:200], headers=NO_RETRY
        ) from error


def _is_own(decision: Decision, principal: Principal) -> bool:
    is_own_service = principal.cache_scope == "tenant" or decision.service == principal.service
    return decision.tenant == principal.tenant and is_own_service


def _served(decision: Decision) -> Served:
    own = decision.question_id
    return Served(
        partition=Partition(decision.namespace, decision.partition),
        question_id=own,
        entry_id=decision.entry_id if decision.outcome == "hit" and decision.entry_id is not None else own,
        answer_id=decision.answer_id,
        similarity=decision.similarity if decision.outcome == "hit" else None,
        alias_id=decision.alias_id,
    )
