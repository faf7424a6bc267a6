"""Walks through all that a shard keeps, a page at a time: for an index that is made anew, and for whoever looks for
entries by what they are.

The store has no list of its entries (one could be evicted while they are not), so it is the keys that are walked.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from redis.exceptions import ResponseError

from .. import changes
from ..errors import StoreUnavailable
from ..identity import changes_key, epoch_key, key_of, namespace_tag, tag_of_space
from ..interfaces import Argument, ShardedStore
from . import scripts as entry_scripts
from .record import HEADER_BYTES, Header, header_of, is_sealed
from .sealing import Seal

_STEP = 2_048  # keys that one step of a walk looks at: the store does nothing else for some tenths of a millisecond
_PAGE = 128
_SAMPLE, _LOOKED_FOR = 64, 8  # entries, in so many steps
_VECTORS = 64  # that are opened while the loop waits
_PAGE_S = 2.0
_MOST_HEADER = 1 << 16


@dataclass(slots=True)
class Walked:
    """How far a walk through a shard is. Another can begin with this `cursor` of the store, and finds what was there
    all the while; but between two steps only, as the store may cut them otherwise then. `step`: keys in one."""

    cursor: int = 0
    is_between: bool = True
    step: int = _STEP


async def scan_vectors(
    store: ShardedStore, shard: int, seal: Seal, walked: Walked | None = None
) -> AsyncIterator[list[changes.Added]]:
    epochs: dict[bytes, bytes | None] = {}  # as they were when the walk came upon a namespace
    # Who may leave in the middle has to be told of each page before the next is read.
    at_once = _PAGE if walked is None else _VECTORS
    async for names in scan_keys(store, shard, "[vn]:*", at_once=at_once, walked=walked):
        records = await answered(store.execute("MGET", *names, deadline=_soon())) if names else []
        for begin in range(0, max(1, len(records)), _VECTORS):
            found = [
                changes.decode(each, seal) for each in records[begin : begin + _VECTORS] if each is not None
            ]
            added = [change for change in found if isinstance(change, changes.Added)]
            epochs |= await epochs_of(
                store, shard, {tag_of_space(each.space) for each in added} - epochs.keys()
            )
            yield [each for each in added if each.epoch == epochs[tag_of_space(each.space)]]


async def scan_headers(
    store: ShardedStore,
    shard: int,
    *,
    secret: bytes,
    wall: Callable[[], float],
    walked: Walked | None = None,
) -> AsyncIterator[list[Header]]:
    async for names in scan_keys(store, shard, "e:*", walked=walked):
        yield await headers_of(store, shard, names, secret=secret, now_s=wall())


async def headers_of(
    store: ShardedStore, shard: int, names: Sequence[Argument], *, secret: bytes, now_s: float
) -> list[Header]:
    """The headers of those entries of the shard that may be served now."""
    if not names:
        return []
    reading = store.script(entry_scripts.STARTS, keys=names, args=[HEADER_BYTES - 1], deadline=_soon())
    found = [header_of(start) for start in await answered(reading)]
    for at, needed in enumerate(found):
        if isinstance(needed, int):  # it has much to say
            whole = store.execute("GETRANGE", names[at], 0, min(needed, _MOST_HEADER) - 1, deadline=_soon())
            found[at] = header_of(await answered(whole))
    headers = [each for each in found if isinstance(each, Header) and each.expires_at_s > now_s]
    tags = {each.namespace: namespace_tag(secret, each.namespace) for each in headers}
    epochs = await epochs_of(store, shard, set(tags.values()))
    return [each for each in headers if each.epoch == epochs[tags[each.namespace]]]


async def sample_seals(store: ShardedStore, shard: int) -> tuple[int, int]:
    """Sealed entries and others, of the first few that a walk comes by."""
    pages = 0
    async for names in scan_keys(store, shard, "e:*", at_once=_SAMPLE):
        pages += 1
        if names:
            reading = store.script(
                entry_scripts.STARTS, keys=names, args=[HEADER_BYTES - 1], deadline=_soon()
            )
            found = [each for each in map(is_sealed, await answered(reading)) if each is not None]
            return sum(found), len(found) - sum(found)
        if pages == _LOOKED_FOR:
            break
    return 0, 0


async def scan_keys(
    store: ShardedStore, shard: int, pattern: str, *, at_once: int = _PAGE, walked: Walked | None = None
) -> AsyncIterator[Sequence[bytes]]:
    """Pages of the shard's names that match; where many do not, empty ones too. A name may come twice."""
    walked = walked or Walked()
    while True:
        step = store.execute(
            *("SCAN", walked.cursor, "MATCH", key_of(shard, pattern), "COUNT", walked.step),
            deadline=_soon(),
            like_key=changes_key(shard),
        )
        cursor, names = await answered(step)
        for begin in range(0, max(1, len(names)), at_once):
            walked.is_between = begin + at_once >= len(names)
            if walked.is_between:
                walked.cursor = int(cursor)
            yield names[begin : begin + at_once]
        if not walked.cursor:
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
