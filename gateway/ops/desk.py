"""A worker's cache as admins see it: answers what the supervisor asks on their behalf."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from backends import Pools
from cache import CacheError, UnfitText

from ..errors import ApiError
from ..evidence.caching import Caching
from ..evidence.desk import (
    AskCache,
    AskJudge,
    CacheTold,
    ExplainPast,
    ExplainRequest,
    Report,
    ShadowCurves,
    WhyNoHits,
)
from .calibrate_shadow import shadow_curves
from .entries import EntriesDesk, problem_of
from .explain import explain_past, explain_request
from .judging import JudgeDesk
from .report import report
from .why import why_no_hits


class OpsDesk:
    """`CacheDesk` over what `open_caching` opened."""

    def __init__(self, caching: Caching, pools: Pools, *, secret: bytes) -> None:
        self._caching = caching
        self._pools = pools
        self._secret = secret
        self._judges = JudgeDesk(pools)
        self._entries = EntriesDesk(caching, pools)

    async def answer(self, ask: AskCache) -> CacheTold:
        try:
            told = await self._told(ask)
        except ApiError as error:
            return CacheTold(ask.ask_id, problem=error.message)
        except (OSError, RedisError, CacheError) as error:
            return CacheTold(
                ask.ask_id, problem=problem_of(error), is_for_now=not isinstance(error, UnfitText)
            )
        if told is None:
            return CacheTold(
                ask.ask_id, problem="Nothing is known of that request (any more).", is_unknown=True
            )
        return CacheTold(ask.ask_id, told)

    async def _told(self, ask: AskCache) -> dict[str, Any] | None:
        match ask.wish:
            case ExplainRequest() as wish:
                return await explain_request(wish, self._caching, self._pools, secret=self._secret)
            case ExplainPast(request_id):
                decision = await self._caching.decisions.find(request_id)
                return None if decision is None else explain_past(decision)
            case WhyNoHits(tenant, key_id):
                found = [
                    each
                    for each in await self._caching.decisions.sample()
                    if each.tenant == tenant and key_id in (None, each.key_id)
                ]
                return why_no_hits(found)
            case Report() as wish:
                return await report(wish, self._caching)
            case ShadowCurves() as wish:
                return await shadow_curves(wish, self._caching)
            case AskJudge() as wish:
                return await self._judges.ask(wish)
            case _:
                return await self._entries.told(ask.wish)
