"""What the supervisor asks of a worker about the entries that the cache keeps: which, how many, what becomes of them.

A walk through them takes a second or two at a time: `after` is where it goes on, as the answer before said (`next`).
"""

from __future__ import annotations

import msgspec


class Chosen(msgspec.Struct, frozen=True):
    """Entries that have all of this to do with them. `request` is one that was answered: the entry that answered it, or
    that was made of its answer. `cluster` is an id that `TellClusters` told, `ids` are those of `x-cache-id`."""

    tenant: str | None = None
    service: str | None = None
    namespace: str | None = None
    user: str | None = None
    safety_identifier: str | None = None
    key: str | None = None
    model: str | None = None
    version: str | None = None
    request: str | None = None
    cluster: str | None = None
    ids: tuple[str, ...] = ()
    older_than_s: float | None = None
    alike: str | None = None
    min_similarity: float = 0.95


class ListEntries(msgspec.Struct, frozen=True, tag=True):
    chosen: Chosen
    limit: int
    after: str | None = None
    with_texts: bool = False


class RemoveEntries(msgspec.Struct, frozen=True, tag=True):
    chosen: Chosen
    is_dry_run: bool = True
    after: str | None = None


class FlushNamespace(msgspec.Struct, frozen=True, tag=True):
    """What is not said is any: of all that are known."""

    tenant: str | None = None
    namespace: str | None = None
    model: str | None = None
    is_dry_run: bool = True


class ExportEntries(msgspec.Struct, frozen=True, tag=True):
    chosen: Chosen
    after: str | None = None


class ImportEntries(msgspec.Struct, frozen=True, tag=True):
    lines: tuple[str, ...]


class TellClusters(msgspec.Struct, frozen=True, tag=True):
    tenant: str
    namespace: str | None = None
    model: str | None = None
    limit: int = 100
    with_texts: bool = False


class CacheStats(msgspec.Struct, frozen=True, tag=True):
    """Of this tenant only, then by namespace."""

    tenant: str | None = None


EntryWish = (
    ListEntries | RemoveEntries | FlushNamespace | ExportEntries | ImportEntries | TellClusters | CacheStats
)
