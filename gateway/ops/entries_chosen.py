"""Turns what admins call entries by into what the cache finds them by."""

from __future__ import annotations

import asyncio
import re

from msgspec.structs import replace

from cache import Selector

from ..errors import InvalidRequest
from ..evidence.caching import Caching
from ..evidence.entry_wishes import Chosen
from ..evidence.policy import label_of

_ID = re.compile(r"[0-7][0-9a-f]{15}")
_CLUSTER = re.compile(r"([0-9a-f]{64})-([0-9a-f]{1,8})-(\d{1,9})")
_NOTHING = frozenset({1 << 63})  # no entry has this number
_TAGS = ("service", "user", "safety_identifier", "key", "model", "version")


async def selector_of(chosen: Chosen, caching: Caching) -> Selector:
    """Raises ApiError for what names nothing, and OSError where the store does not answer."""
    tags = {name: value for name in _TAGS if (value := getattr(chosen, name)) is not None}
    selector = Selector(
        owner=chosen.tenant,
        under=None if chosen.namespace is None else label_of(chosen.tenant or "", chosen.namespace, ""),
        entry_ids=frozenset(_number(each) for each in chosen.ids),
        tags=tags,
        older_than_s=chosen.older_than_s,
        alike=chosen.alike,
        min_similarity=chosen.min_similarity,
    )
    if chosen.request is not None:
        selector = await _of_request(selector, chosen.request, caching)
    if chosen.cluster is not None:
        selector = _narrowed(selector, await _in_cluster(chosen.cluster, caching))
    return selector


async def _of_request(selector: Selector, request_id: str, caching: Caching) -> Selector:
    """A hit names its entry, as long as that is known; what a miss led to is found by the request's id."""
    decision = await caching.decisions.find(request_id)
    if decision is not None:
        if selector.owner not in (None, decision.tenant):
            return _narrowed(selector, frozenset())
        selector = replace(selector, owner=decision.tenant)
    if decision is not None and decision.outcome == "hit" and decision.entry_id is not None:
        return _narrowed(selector, frozenset({decision.entry_id}))
    return replace(selector, tags={**selector.tags, "request": request_id})


async def _in_cluster(named: str, caching: Caching) -> frozenset[int]:
    found = _CLUSTER.fullmatch(named)
    if found is None:
        raise InvalidRequest(
            f"cluster: {named[:100]!r} is no cluster's id; expected one that /admin/cache/clusters told.",
            param="cluster",
        )
    space, drawing, number = bytes.fromhex(found[1]), found[2], int(found[3])
    drawn, ids = await asyncio.to_thread(caching.index.spaces.ids_of, space, number)
    if drawn != drawing:
        raise InvalidRequest(
            "cluster: its partition is gone, or was drawn anew since; ask for the clusters again.",
            param="cluster",
        )
    return frozenset(ids)


def _narrowed(selector: Selector, ids: frozenset[int]) -> Selector:
    ids = ids & selector.entry_ids if selector.entry_ids else ids
    return replace(selector, entry_ids=ids or _NOTHING)


def _number(named: str) -> int:
    if _ID.fullmatch(named) is None:
        raise InvalidRequest(
            f"ids: {named[:32]!r} is no entry's id; expected 16 hexadecimal digits, as in `x-cache-id`.",
            param="ids",
        )
    return int(named, 16)
