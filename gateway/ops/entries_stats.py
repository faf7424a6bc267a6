"""Tells what the cache keeps, by tenant and namespace, and how a worker's index of it looks, clusters included."""

from __future__ import annotations

import asyncio
import time
from heapq import nlargest
from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from cache import Account, Cluster, Selector, Spaces

from ..evidence.caching import Caching
from ..evidence.entry_wishes import CacheStats, TellClusters
from ..evidence.policy import split_label

_TENANTS = 1_000
_AT_ONCE = 100
_COUNT_S = 3.0
_LARGEST = 10
_EXAMPLES = 3
_TEXT = 500


async def cache_stats(wish: CacheStats, caching: Caching) -> dict[str, Any]:
    """Raises StoreUnavailable, OSError or RedisError if the store does not answer."""
    labels = await known_labels(caching)
    owners = sorted({split_label(label)[0] for label in labels})
    if wish.tenant is not None:
        owners = [wish.tenant]
    kept = await _kept(caching, owners[:_TENANTS])
    told: dict[str, Any] = {
        "object": "cache.stats",
        "tenants": kept,
        "tenants_left_out": len(owners[_TENANTS:]),
        "index": await asyncio.to_thread(_index, caching.index.spaces),
        "snapshot_age_s": await asyncio.to_thread(_age_s, caching.index.snapshot_path),
        "sealing": await _sealing(caching),
    }
    if wish.tenant is not None:
        told |= await _namespaces(caching, wish.tenant, labels)
    return told


async def tell_clusters(wish: TellClusters, caching: Caching) -> dict[str, Any]:
    """As the worker that answers sees them."""
    found: list[tuple[str, Cluster]] = []
    for label in await known_labels(caching):
        tenant, namespace, model = split_label(label)
        if tenant == wish.tenant and wish.namespace in (None, namespace) and wish.model in (None, model):
            clusters = await asyncio.to_thread(caching.cache.clusters, label, most=wish.limit)
            found += [(label, each) for each in clusters]
    largest = nlargest(wish.limit, found, key=lambda pair: pair[1].size)
    told = [_cluster_told(label, each) for label, each in largest]
    if wish.with_texts:
        for (_, each), facts in zip(largest, told, strict=True):
            facts["examples"] = await _examples(wish.tenant, each, caching)
    return {"object": "list", "data": told}


async def known_labels(caching: Caching) -> list[str]:
    """What the cache calls namespaces: all that were asked in the last month or have a standing."""
    standings, counted = await asyncio.gather(caching.audits.books.standings(), caching.tallies.labels())
    return sorted({*standings, *counted})


async def _kept(caching: Caching, owners: list[str]) -> list[dict[str, Any]]:
    told = []
    for begin in range(0, len(owners), _AT_ONCE):
        some = owners[begin : begin + _AT_ONCE]
        accounts = await asyncio.gather(*(caching.keeping.inventory.account(owner) for owner in some))
        for owner, account in zip(some, accounts, strict=True):
            quota = caching.keeping.quota_of(owner)
            told.append(
                {
                    "tenant": owner,
                    **asdict(account),
                    "most_entries": quota.most_entries,
                    "most_bytes": quota.most_bytes,
                }
            )
    return sorted(told, key=lambda each: -each["bytes"])


async def _namespaces(caching: Caching, tenant: str, labels: list[str]) -> dict[str, Any]:
    own = [label for label in labels if split_label(label)[0] == tenant]
    until = time.monotonic() + _COUNT_S
    found = await caching.keeping.inventory.accounts(tenant, own, until=until)
    rows = []
    for label, account in found.of.items():
        _, namespace, model = split_label(label)
        rows.append({"namespace": namespace, "model": model, **asdict(account)})
    if found.others != Account(0, 0):
        rows.append({"namespace": None, "model": None, **asdict(found.others)})
    return {"namespaces": rows, "is_whole": found.is_whole}


async def _sealing(caching: Caching) -> dict[str, Any]:
    sealed, plain = await caching.keeping.inventory.sample_seals()
    return {"sealed": sealed, "unsealed": plain, "refused": caching.keeping.seal.refused}


def _index(spaces: Spaces) -> dict[str, Any]:
    """In a thread: there can be many spaces."""
    state = spaces.state()
    largest = nlargest(_LARGEST, spaces, key=lambda each: len(each.ids))
    return {
        "partitions": state.spaces,
        "vectors": state.vectors,
        "bytes": state.bytes,
        "most_bytes": spaces.most_bytes,
        "with_index": state.indexes,
        "with_clusters": state.clustered,
        "changes_waiting": state.waiting,
        "recall": state.recall,
        "drawn_anew": state.rebuilds,
        "evicted": state.evicted,
        "reloaded": state.reloaded,
        "largest": [
            {
                "vectors": len(each.ids),
                "clusters": 1 if each.index is None else each.index.clusters,
                "searched": 1 if each.index is None else each.index.probes,
            }
            for each in largest
        ],
    }


def _cluster_told(label: str, cluster: Cluster) -> dict[str, Any]:
    _, namespace, model = split_label(label)
    return {
        "id": f"{cluster.space.hex()}-{cluster.drawing}-{cluster.number}",
        "name": f"cluster_{cluster.number}",
        "namespace": namespace,
        "model": model,
        "size": cluster.size,
        "searches": cluster.searches,
        "hits": cluster.hits,
        "hit_rate": cluster.hits / cluster.searches if cluster.searches else None,
        "similarity": cluster.similarity,
    }


async def _examples(tenant: str, cluster: Cluster, caching: Caching) -> list[str]:
    _, ids = await asyncio.to_thread(caching.index.spaces.ids_of, cluster.space, cluster.number)
    if not ids:
        return []
    selector = Selector(owner=tenant, entry_ids=frozenset(ids[:_EXAMPLES]))
    return [each.entry.question[:_TEXT] async for each in caching.keeping.inventory.records(selector)]


def _age_s(path: Path | None) -> float | None:
    """None: there is none."""
    if path is None:
        return None
    try:
        return round(max(0.0, time.time() - path.stat().st_mtime), 1)
    except OSError:
        return None
