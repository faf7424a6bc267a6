"""Puts together how the cache does: each namespace's standing, what hits saved, what was served most and refused."""

from __future__ import annotations

from typing import Any

from ..evidence.caching import Caching
from ..evidence.desk import Report
from ..evidence.policy import split_label
from ..evidence.tallies import TOP, Totals
from .explain import standing_told
from .why import outcomes


async def report(wish: Report, caching: Caching) -> dict[str, Any]:
    """Raises OSError or RedisError if the store does not answer."""
    standings = await caching.audits.books.standings()
    totals = await caching.tallies.read(wish.days, tenant=wish.tenant)
    sample = await caching.decisions.sample()
    data = []
    for label in sorted({*standings, *totals}):
        tenant, namespace, model = split_label(label)
        if wish.tenant in (None, tenant):
            rules = caching.policies.rules(label)
            standing = standings.get(label) or caching.audits.of(label).standing
            data.append(
                {
                    "tenant": tenant,
                    "namespace": namespace,
                    "model": model,
                    "mode": caching.policies.of(tenant, namespace).mode,
                    "policy": rules.policy,
                    "budget": rules.budget,
                    **standing_told(standing),
                    **_traffic(totals.get(label) or Totals()),
                    "sample": outcomes([each for each in sample if each.namespace == label]),
                }
            )
    return {"object": "list", "days": wish.days, "data": data}


def _traffic(totals: Totals) -> dict[str, Any]:
    hits = sum(totals.hits.values())
    saved = totals.saved
    return {
        "requests": totals.requests,
        "hits": hits,
        "hit_share": hits / totals.requests if totals.requests else None,
        "hits_by_tier": dict(totals.hits.most_common()),
        "saved": {
            "input_tokens": round(saved.get("input_tokens", 0)),
            "output_tokens": round(saved.get("output_tokens", 0)),
            "seconds": round(saved.get("seconds", 0), 3),
            "cost": round(saved.get("cost", 0), 9),
        },
        "top_entries": [{"id": entry_id, "hits": each} for entry_id, each in totals.entries.most_common(TOP)],
        "top_refusals": [
            {"reason": reason, "requests": each} for reason, each in totals.refusals.most_common(TOP)
        ],
    }
