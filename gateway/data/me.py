"""`/v1/me`: what the key that asks may do, how its limits stand, and what it has used."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
from redis.exceptions import RedisError

from auth import Limiter, LimitsUnavailable, LiveLimit, Principal
from backends import Pools

from ..callers import Callers
from ..errors import Unavailable, from_limits
from ..telemetry.timeline import Timeline
from ..usage.store import Counts, UsageStore, month_start_s
from .wire import Reply, Request

PATH = "/v1/me"

_DAY_S = 86_400


class Me:
    """Answers for the key itself and for nobody else. `wall` is the clock of days and months, in UTC."""

    def __init__(
        self,
        *,
        callers: Callers,
        pools: Pools,
        limiter: Limiter,
        usage: UsageStore,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._callers = callers
        self._pools = pools
        self._limiter = limiter
        self._usage = usage
        self._wall = wall

    async def answer(self, request: Request, reply: Reply, timeline: Timeline) -> None:
        """Raises ApiError. Needs no scope, and is not limited."""
        principal = await self._callers.identify(request, timeline)
        try:
            limits = await self._limiter.look(principal.tenant, principal.limits)
        except LimitsUnavailable as error:
            raise from_limits(error) from error
        body = {
            "object": "key",
            "id": principal.key_id,
            "tenant": principal.tenant,
            "service": principal.service,
            "scopes": sorted(principal.scopes),
            "models": [model for model in self._pools.models() if principal.may_use(model)],
            "priority": principal.priority.name.lower(),
            "cache": {
                "mode": principal.cache_mode,
                "scope": principal.cache_scope,
                "shared_pool": principal.shared_pool,
            },
            "limits": [_limit(limit) for limit in limits],
            "usage": await self._used(principal),
            "warnings": [{"kind": each.kind, "ends_at": _iso(each.ends_at_s)} for each in principal.warnings],
        }
        await reply.whole(200, msgspec.json.encode(body))

    async def _used(self, principal: Principal) -> dict[str, Any]:
        """Of this key; what the last second brought may be missing."""
        now_s = self._wall()
        today_s = int(now_s // _DAY_S) * _DAY_S
        try:
            days = await self._usage.read(
                principal.tenant,
                "key",
                principal.key_id,
                "day",
                start_s=month_start_s(now_s),
                end_s=today_s + _DAY_S,
            )
        except (OSError, RedisError) as error:
            raise Unavailable("The store of usage does not answer; try again soon.") from error
        today, month = Counts(), Counts()
        for at_s, counts in days:
            month.add(counts)
            if at_s == today_s:
                today.add(counts)
        return {"today": today, "month": month}


def _limit(limit: LiveLimit) -> dict[str, Any]:
    return {
        "level": limit.level,
        "kind": limit.kind,
        "capacity": limit.capacity,
        "remaining": limit.remaining,
        "reset_s": limit.reset_s,
    }


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
