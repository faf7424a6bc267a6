"""What a worker does with the entries that the cache keeps when admins ask: list, remove, flush, take out and in."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from backends import Pools
from cache import EmbedderBusy, Header, NotAnEntry, Progress, Record, UnfitText

from ..errors import InvalidRequest
from ..evidence.caching import Caching
from ..evidence.entry_wishes import (
    CacheStats,
    EntryWish,
    ExportEntries,
    FlushNamespace,
    ImportEntries,
    ListEntries,
    RemoveEntries,
    TellClusters,
)
from ..evidence.policy import label_of, split_label
from .entries_chosen import selector_of
from .entries_stats import cache_stats, known_labels, tell_clusters

PAGE_S = 2.0
PAGE_BYTES = 2 << 20
_READ_AT_ONCE, _LISTED_AT_ONCE = 8, 256
_FLUSHED_AT_MOST = 10_000
_COUNTED = 10  # namespaces on a page
_TEXT = 2_000  # characters of each that are shown


class EntriesDesk:
    """Answers what admins wish of entries. Raises ApiError, CacheError, OSError or RedisError."""

    def __init__(self, caching: Caching, pools: Pools) -> None:
        self._caching = caching
        self._pools = pools

    async def told(self, wish: EntryWish) -> dict[str, Any]:
        match wish:
            case ListEntries():
                return await list_entries(wish, self._caching)
            case RemoveEntries():
                return await remove_entries(wish, self._caching)
            case FlushNamespace():
                return await flush_namespace(wish, self._caching, self._pools.models())
            case ExportEntries():
                return await export_entries(wish, self._caching)
            case ImportEntries():
                return await import_entries(wish, self._caching)
            case TellClusters():
                return await tell_clusters(wish, self._caching)
            case CacheStats():
                return await cache_stats(wish, self._caching)


async def list_entries(wish: ListEntries, caching: Caching) -> dict[str, Any]:
    inventory = caching.keeping.inventory
    found: list[dict[str, Any]] = []
    progress = _progress(wish.after, step=_LISTED_AT_ONCE, is_enough=lambda: len(found) >= wish.limit)
    selector = await selector_of(wish.chosen, caching)
    if wish.with_texts:
        async for record in inventory.records(selector, progress=progress):
            found.append(_with_texts(record))  # noqa: PERF401 - how many there are is looked at meanwhile
    else:
        async for page in inventory.headers(selector, progress=progress):
            found += map(entry_told, page)
    await _add_hits(found, caching)
    return {"object": "list", "data": found, **_further(progress)}


async def _add_hits(found: list[dict[str, Any]], caching: Caching) -> None:
    """Where the entries are of a few namespaces: each has counters of its own for every day."""
    by_label: dict[str, list[dict[str, Any]]] = {}
    for each in found:
        label = label_of(each["tenant"], each["namespace"], each["model"])
        by_label.setdefault(label, []).append(each)
    if len(by_label) > _COUNTED:
        return
    for label, entries in by_label.items():
        hits = await caching.tallies.hits(label, [each["id"] for each in entries])
        for each, count in zip(entries, hits, strict=True):
            each["hits"] = count


async def remove_entries(wish: RemoveEntries, caching: Caching) -> dict[str, Any]:
    progress = _progress(wish.after)
    selector = await selector_of(wish.chosen, caching)
    done = await caching.keeping.inventory.invalidate(selector, dry_run=wish.is_dry_run, progress=progress)
    return {
        "object": "cache.invalidation",
        "dry_run": wish.is_dry_run,
        "found": done.found,
        "removed": done.removed,
        "namespaces": [{**_names(label), "found": found} for label, found in sorted(done.namespaces.items())],
        **_further(done),
    }


async def flush_namespace(wish: FlushNamespace, caching: Caching, models: list[str]) -> dict[str, Any]:
    """`models` are those of the pools: they may have entries that nobody has counted."""
    labels = {
        label
        for label in await known_labels(caching)
        for tenant, namespace, model in [split_label(label)]
        if wish.tenant in (None, tenant)
        and wish.namespace in (None, namespace)
        and wish.model in (None, model)
    }
    if wish.tenant is not None and wish.namespace is not None:
        named = models if wish.model is None else [wish.model]
        labels |= {label_of(wish.tenant, wish.namespace, model) for model in named}
    if len(labels) > _FLUSHED_AT_MOST:
        raise InvalidRequest(
            f"There are {len(labels)} namespaces, more than {_FLUSHED_AT_MOST}: flush those of one tenant at a time."
        )
    if not wish.is_dry_run:
        for label in sorted(labels):
            await caching.cache.flush(label)
    told = [_names(label) for label in sorted(labels)]
    return {"object": "cache.flush", "dry_run": wish.is_dry_run, "namespaces": told}


async def export_entries(wish: ExportEntries, caching: Caching) -> dict[str, Any]:
    """What does not fit beside the others is told as `pending`, to be asked for by its ids."""
    size, too_large = 0, 0
    lines: list[str] = []
    pending: list[str] = []
    progress = _progress(
        wish.after,
        step=_READ_AT_ONCE if wish.chosen.ids else _LISTED_AT_ONCE,
        is_enough=lambda: size >= PAGE_BYTES or bool(pending),
    )
    selector = await selector_of(wish.chosen, caching)
    async for page in caching.keeping.inventory.headers(selector, progress=progress):
        for header in page:
            if size >= PAGE_BYTES:
                pending.append(f"{header.entry_id:016x}")
                continue
            line = await caching.keeping.transfer.line(header)
            if line is not None and len(line) > PAGE_BYTES:
                too_large += 1
            elif line is not None:
                size += len(line)
                lines.append(line.decode())
    return {
        "object": "cache.export",
        "lines": lines,
        "pending": pending,
        "too_large": too_large,
        **_further(progress),
    }


async def import_entries(wish: ImportEntries, caching: Caching) -> dict[str, Any]:
    """For a second or two: `taken` lines were dealt with. Those that are no entries are told by their place, and
    the others are taken in nonetheless."""
    until, taken = time.monotonic() + PAGE_S, 0
    outcomes: Counter[str] = Counter()
    refused = []
    for taken, line in enumerate(wish.lines, 1):
        try:
            outcomes[await caching.keeping.transfer.take_in(line.encode("utf-8", "surrogatepass"))] += 1
        except NotAnEntry as error:
            refused.append({"line": taken, "reason": str(error)})
        if time.monotonic() > until:
            break
    return {
        "object": "cache.import",
        "taken": taken,
        "outcomes": dict(sorted(outcomes.items())),
        "refused": refused,
    }


def entry_told(header: Header) -> dict[str, Any]:
    """All that can be told of it without a text."""
    return {
        "id": f"{header.entry_id:016x}",
        **_names(header.namespace),
        "created_at": _moment(header.created_at_s),
        "expires_at": _moment(header.expires_at_s),
        "bytes": header.size,
        "is_similar": header.is_similar,
        "tagged": sorted(header.tags),
    }


def problem_of(error: Exception) -> str:
    match error:
        case UnfitText(reason=reason):
            return f"alike: nothing can be compared with this text: {reason}."
        case EmbedderBusy():
            return "The embedder is busy: ask again."
        case _:
            return "The store does not answer."


def _with_texts(record: Record) -> dict[str, Any]:
    entry = record.entry
    return {
        **entry_told(record.header),
        "question": entry.question[:_TEXT],
        "answer": entry.answer.text[:_TEXT],
        "origin": dict(entry.answer.origin),
    }


def _progress(
    after: str | None, *, step: int = 2_048, is_enough: Callable[[], bool] = lambda: False
) -> Progress:
    until = time.monotonic() + PAGE_S
    try:
        return Progress(after, lambda: is_enough() or time.monotonic() > until, step)
    except ValueError as error:
        raise InvalidRequest(
            f"after: {error}; expected `next` of the answer before.", param="after"
        ) from error


def _further(progress: Progress) -> dict[str, Any]:
    done = 1.0 if progress.place is None else progress.shards_done / max(1, progress.shards)
    return {"has_more": progress.place is not None, "next": progress.place, "progress": round(done, 3)}


def _names(label: str) -> dict[str, str]:
    return dict(zip(("tenant", "namespace", "model"), split_label(label), strict=True))


def _moment(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
