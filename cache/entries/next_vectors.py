"""Keeps a second vector beside an entry's own, of the embedder that is to follow, until it takes the first one's place.

Both are found by whoever makes an index anew, and each process takes those of its own embedder. Removing an entry
removes both (entries/scripts.py).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence

from .. import changes
from ..identity import Keys, fingerprint_tag, is_of_fingerprint, key_of, space
from ..interfaces import ShardedStore
from ..model import Partition, Vector
from . import record as entry_record
from . import scripts as entry_scripts
from .record import Record
from .scan import answered, scan_keys
from .store import RedisEntries

_HEX = 16  # digits of an entry's id at the end of a key
_AT_ONCE = 64
_COMMAND_S = 2.0


class NextVectors:
    """`fingerprint` is that of the embedder to follow. All methods raise `StoreUnavailable`."""

    def __init__(
        self, store: ShardedStore, entries: RedisEntries, *, secret: bytes, fingerprint: str
    ) -> None:
        self._store = store
        self._entries = entries
        self._secret = secret
        self._fingerprint = fingerprint
        self._tag = fingerprint_tag(secret, fingerprint)

    async def count(self, shard: int) -> int:
        """How many entries of the shard have a vector."""
        total = 0
        async for names in self._named(shard):
            total += len(names)
        return total

    async def lacking(self, shard: int) -> AsyncIterator[tuple[int, list[bytes]]]:
        """In pages: how many entries it looked at, and the names of those that lack a vector of this embedder."""
        async for names in self._named(shard):
            ids = [name[-_HEX:] for name in names]
            own, beside = await self._read(shard, b"v:", ids), await self._read(shard, b"n:", ids)
            yield (
                len(ids),
                [
                    name
                    for name, vector, following in zip(ids, own, beside, strict=True)
                    if not self._is_of_next(vector) and not self._is_of_next(following)
                ],
            )

    async def record(self, shard: int, name: bytes) -> Record | None:
        (found,) = await self._read(shard, b"e:", [name])
        return None if found is None else entry_record.read(found, seal=self._entries.seal)

    async def adopt(self, record: Record, vector: Vector) -> bool:
        """Keep the vector beside the entry's own and announce it; False where the entry is not there any more."""
        header = record.header
        partition = Partition(header.namespace, header.partition)
        keys = Keys(self._secret, header.namespace)
        added = changes.Added(
            space(self._secret, partition, self._fingerprint),
            header.entry_id,
            vector,
            header.expires_at_s,
            header.epoch,
        )
        adopted = self._store.script(
            entry_scripts.ADOPT,
            keys=[*self._entries.removal_keys(keys), keys.epoch],
            args=[
                *self._entries.removal_args(keys),
                header.epoch,
                header.entry_id.to_bytes(8, "big"),
                changes.encode(added, self._entries.seal),
            ],
            deadline=_soon(),
        )
        return bool(await answered(adopted))

    async def settle(self, shard: int) -> AsyncIterator[int]:
        """Let the next vectors take their places, and the others go: page by page, how many of those went."""
        async for names in self._named(shard):
            ids = [name[-_HEX:] for name in names]
            own = await self._read(shard, b"v:", ids)
            old = [
                int(name, 16)
                for name, vector in zip(ids, own, strict=True)
                if vector is not None and not self._is_of_next(vector)
            ]
            for header in await self._entries.headers(shard, old) if old else ():
                await self._settle(header)
            yield len(old)

    async def _settle(self, header: entry_record.Header) -> None:
        keys = Keys(self._secret, header.namespace)
        settled = self._store.script(
            entry_scripts.SETTLE,
            keys=self._entries.removal_keys(keys),
            args=[*self._entries.removal_args(keys), keys.tag, header.entry_id.to_bytes(8, "big")],
            deadline=_soon(),
        )
        await answered(settled)

    def _named(self, shard: int) -> AsyncIterator[Sequence[bytes]]:
        return scan_keys(self._store, shard, "v:*", at_once=_AT_ONCE)

    async def _read(self, shard: int, kind: bytes, ids: Sequence[bytes]) -> list[bytes | None]:
        if not ids:
            return []
        prefix = key_of(shard, "").encode() + kind
        found: list[bytes | None] = await answered(
            self._store.execute("MGET", *(prefix + each for each in ids), deadline=_soon())
        )
        return found

    def _is_of_next(self, record: bytes | None) -> bool:
        if record is None:
            return False
        change = changes.decode(record, self._entries.seal)
        return isinstance(change, changes.Added) and is_of_fingerprint(change.space, self._tag)


def _soon() -> float:
    return time.monotonic() + _COMMAND_S
