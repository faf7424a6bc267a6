"""Walks through all that a shard keeps, a page at a time: for an index that is made anew, and for whoever looks for
entries by what they are.

The store has no list of its entries (one could be evicted while they are not), so it is the keys that are walked.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from . import changes
from .errors import StoreUnavailable
from .identity import changes_key, epoch_key, key_of, tag_of_space
from .interfaces import ShardedStore
from .sealing import Seal

_PAGE = 256  # keys that one step of a walk looks at: the store does nothing else meanwhile
_PAGE_S = 2.0


async def scan_vectors(store: ShardedStore, shard: int, seal: Seal) -> AsyncIterator[list[changes.Added]]:
    async for names in scan_keys(store, key_of(shard, "v:*"), like=changes_key(shard)):
        records = await answered(store.execute("MGET", *names, deadline=_soon()))
        found = [changes.decode(record, seal) for record in records if record is not None]
        added = [change for change in found if isinstance(change, changes.Added)]
        epochs = await epochs_of(store, shard, {tag_of_space(each.space) for each in added})
        yield [each for each in added if each.epoch == epochs[tag_of_space(each.space)]]


async def scan_keys(store: ShardedStore, pattern: str, *, like: str) -> AsyncIterator[Sequence[bytes]]:
    """Pages of the names that match on the server that holds `like`. A name may come twice."""
    cursor: bytes = b"0"
    while True:
        step = store.execute(
            "SCAN", cursor, "MATCH", pattern, "COUNT", _PAGE, deadline=_soon(), like_key=like
        )
        cursor, names = await answered(step)
        if names:
            yield names
        if cursor == b"0":
            return


async def epochs_of(store: ShardedStore, shard: int, tags: set[bytes]) -> dict[bytes, bytes | None]:
    """The epochs of the namespaces with these tags, as they are now."""
    if not tags:
        return {}
    ordered = list(tags)
    reply = await answered(
        store.execute("MGET", *(epoch_key(shard, tag) for tag in ordered), deadline=_soon())
    )
    return dict(zip(ordered, reply, strict=True))


def _soon() -> float:
    return time.monotonic() + _PAGE_S


async def answered(pending: Awaitable[Any]) -> Any:
    """The store's reply. Raises `StoreUnavailable` where there is none."""
    try:
        return await pending
    except (OSError, ResponseError) as error:
        raise StoreUnavailable(f"the cache store did not answer: {type(error).__name__}") from error
