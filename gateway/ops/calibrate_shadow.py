"""Makes the curve of a running deployment from its own audits: what other thresholds and budgets would have served."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from cache import Hindsight, WouldBe, look_back

from ..evidence.caching import Caching
from ..evidence.desk import ShadowCurves
from ..evidence.policy import split_label
from .calibrate import THRESHOLDS
from .curve import BUDGETS, Curve, Point


async def shadow_curves(wish: ShadowCurves, caching: Caching) -> dict[str, Any]:
    """Of each namespace of the tenant that has audits. Raises OSError or RedisError if the store does not answer."""
    data = []
    for label in await caching.audits.books.standings():
        tenant, namespace, model = split_label(label)
        if tenant == wish.tenant and wish.namespace in (None, namespace) and wish.model in (None, model):
            found = await _look_back(label, caching)
            if found.audits:
                requests = await caching.tallies.requests_since(label, found.since_s)
                data.append(
                    {
                        "tenant": tenant,
                        "namespace": namespace,
                        "model": model,
                        "since": found.since_s,
                        "audits": found.audits,
                        "judged_by": list(found.judges),
                        "is_corrected": found.is_corrected,
                        **Curve([_point(each, requests) for each in found.points]).record(),
                    }
                )
    return {"object": "list", "data": data}


async def _look_back(label: str, caching: Caching) -> Hindsight:
    known = await caching.audits.books.ledger_of(label)
    return await asyncio.to_thread(
        look_back,
        known,
        caching.policies.rules(label),
        thresholds=THRESHOLDS,
        budgets=BUDGETS,
        at_s=time.time(),
        measured=caching.judges.of,
    )


def _point(each: WouldBe, requests: int) -> Point:
    hits = round(each.hits)
    return Point(
        policy=each.policy,
        threshold=each.threshold,
        budget=each.budget,
        # Never fewer than hits: of what was drawn at random more may come than there is.
        requests=max(requests, hits),
        hits=hits,
        wrong=round(each.wrong),
        first_serve=None,
        judge_calls=each.audits,
        f_low=each.low,
        f_high=each.high,
    )
