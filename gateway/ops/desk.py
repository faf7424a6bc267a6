"""A worker's cache as admins see it: answers what the supervisor asks on their behalf."""

from __future__ import annotations

from typing import Any

from redis.exceptions import RedisError

from backends import Pools

from ..errors import ApiError
from ..evidence.caching import Caching
from ..evidence.desk import AskCache, CacheTold, ExplainPast, ExplainRequest, Report, WhyNoHits
from ..evidence.policy import split_label
from .explain import explain_past, explain_request, standing_told
from .why import outcomes, why_no_hits


class OpsDesk:
    """`CacheDesk` over what `open_caching` opened."""

    def __init__(self, caching: Caching, pools: Pools, *, secret: bytes) -> None:
        self._caching = caching
        self._pools = pools
        self._secret = secret

    async def answer(self, ask: AskCache) -> CacheTold:
        try:
            told = await self._told(ask)
        except ApiError as error:
            return CacheTold(ask.ask_id, problem=error.message)
        except (OSError, RedisError):
            return CacheTold(ask.ask_id, problem="The store does not answer.")
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
            case Report(tenant):
                return await self._report(tenant)

    async def _report(self, tenant: str | None) -> dict[str, Any]:
        standings = await self._caching.audits.books.standings()
        sample = await self._caching.decisions.sample()
        data = []
        for label, standing in standings.items():
            owner, namespace, model = split_label(label)
            if tenant in (None, owner):
                rules = self._caching.policies.rules(label)
                data.append(
                    {
                        "tenant": owner,
                        "namespace": namespace,
                        "model": model,
                        "mode": self._caching.policies.of(owner, namespace).mode,
                        "policy": rules.policy,
                        "budget": rules.budget,
                        **standing_told(standing),
                        "sample": outcomes([each for each in sample if each.namespace == label]),
                    }
                )
        return {"object": "list", "data": data}
