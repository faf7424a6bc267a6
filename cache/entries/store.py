"""Keeps entries in a Redis-protocol store: one read per look-up, one script per write, a TTL on every key.

Each namespace has an epoch, 8 random bytes. An entry carries the epoch it was written under and counts only
while that is still the namespace's: a flush is a new epoch, and an epoch lost to eviction makes its entries
invisible, never valid. A shard has an era, which changes when entries are removed by what they are. A write names
both as read at look-up and comes to nothing if either has changed. Every change is announced in the stream of the
shard, in the same script (entries/scripts.py).
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import cast

from .. import changes
from ..identity import SHARDS, Keys, answer_id, era_key, key_of, keys_in, namespace_tag, shard_of
from ..interfaces import Argument, Outcome, ShardedStore
from ..model import Entry, Partition, Question, Quota, Ticket
from . import record as entry_record
from . import scripts as entry_scripts
from .accounts import Account, Accounts, account_of, accounts_of
from .finding import EPOCH_BYTES, Finding
from .record import Header, Record
from .scan import Walked, answered, headers_of, sample_seals, scan_headers, scan_vectors
from .sealing import Seal, Unsealed

# Epoch and era must survive the longest generation between a look-up and its write; writes prolong it.
_EPOCH_TTL_MS = 3_600_000
_REMOVAL_HEAD = changes.removal_head()
_UNSEALED = Unsealed()


class RedisEntries:
    """`EntryStore` over the composer's store client.

    `changes_kept` bounds each shard's stream (about 1.6 kB an item): beyond it an index is made from the vectors.
    `quota_of` says what an owner may keep; what expires first goes first.
    """

    def __init__(
        self,
        store: ShardedStore,
        *,
        secret: bytes,
        seal: Seal = _UNSEALED,
        quota_of: Callable[[str], Quota] = Quota.of_anyone,
        changes_kept: int = 16_384,
        wall: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._secret = secret
        self.seal = seal
        self._quota_of = quota_of
        self._changes_kept = changes_kept
        self._wall = wall
        self._random_bytes = random_bytes

    def find(
        self, question: Question, entry_id: int, *, deadline: float, canonical_id: int | None = None
    ) -> Finding:
        keys = self._keys_of(question.partition.namespace)
        alike = () if canonical_id is None else (keys.canonical(canonical_id),)
        reply = self._store.execute(
            "MGET", keys.entry(entry_id), keys.epoch, keys.era, *alike, deadline=deadline
        )
        return Finding(self, question, entry_id, reply, deadline)

    async def fetch(
        self, partition: Partition, entry_ids: Sequence[int], *, deadline: float
    ) -> list[Entry | None]:
        keys = self._keys_of(partition.namespace)
        names = [keys.entry(entry_id) for entry_id in entry_ids]
        epoch, *records = await answered(self._store.execute("MGET", keys.epoch, *names, deadline=deadline))
        return [
            self.valid(record, epoch, partition, entry_id)
            for record, entry_id in zip(records, entry_ids, strict=True)
        ]

    async def put(self, ticket: Ticket, entry: Entry, *, deadline: float) -> Outcome:
        ttl_ms = int((entry.expires_at_s - self._wall()) * 1000)
        if ticket.epoch is None or ttl_ms <= 0:
            return "invalidated"
        epoch, era = ticket.epoch[:EPOCH_BYTES], ticket.epoch[EPOCH_BYTES:]
        partition = ticket.question.partition
        keys = self._keys_of(partition.namespace)
        announced = b""
        if ticket.vector is not None and ticket.space is not None:
            announced = changes.encode(
                changes.Added(ticket.space, entry.entry_id, ticket.vector, entry.expires_at_s, epoch),
                self.seal,
            )
        record = entry_record.encode(entry, partition, epoch, is_similar=bool(announced), seal=self.seal)
        quota = self._quota_of(partition.owner)
        writing = answered(
            self._store.script(
                entry_scripts.PUT,
                keys=[
                    *self.removal_keys(keys),
                    keys.epoch,
                    keys.era,
                    keys.entry(entry.entry_id),
                    keys.vector(entry.entry_id),
                    keys.blocked,
                    keys.claim(entry.entry_id),
                ],
                args=[
                    *self.removal_args(keys),
                    epoch,
                    era,
                    record,
                    ttl_ms,
                    announced,
                    _pair(entry.entry_id, answer_id(self._secret, entry.answer.text)),
                    keys.tag,
                    _packed(entry.entry_id),
                    quota.most_bytes,
                    quota.most_entries,
                    _EPOCH_TTL_MS,
                    ticket.claim,
                ],
                deadline=deadline,
            )
        )
        if ticket.canonical_id is None:
            return cast(Outcome, (await writing).decode())
        # In the same round trip. Where nothing is written it does no harm: it only says where to look.
        named, alike = keys.canonical(ticket.canonical_id), f"{entry.entry_id:016x}"
        hint = self._store.execute("SET", named, alike, "PX", ttl_ms, deadline=deadline)
        written, _ = await asyncio.gather(writing, answered(hint))
        return cast(Outcome, written.decode())

    async def block(self, namespace: str, entry_id: int, answer_id: int, *, deadline: float) -> None:
        keys = self._keys_of(namespace)
        pair = _pair(entry_id, answer_id)
        await answered(
            self._store.script(
                entry_scripts.BLOCK,
                keys=[*self.removal_keys(keys), keys.blocked],
                args=[*self.removal_args(keys), keys.tag, _packed(entry_id), pair, _EPOCH_TTL_MS],
                deadline=deadline,
            )
        )

    async def remove(self, namespace: str, entry_ids: Sequence[int], *, deadline: float) -> int:
        keys = self._keys_of(namespace)
        removed = await answered(
            self._store.script(
                entry_scripts.REMOVE,
                keys=self.removal_keys(keys),
                args=[*self.removal_args(keys), keys.tag, *map(_packed, entry_ids)],
                deadline=deadline,
            )
        )
        return cast(int, removed)

    async def begin_era(self, owner: str | None, *, deadline: float) -> None:
        shards = range(SHARDS) if owner is None else [shard_of(self._secret, owner)]
        began = [
            self._store.execute(
                "SET",
                era_key(shard),
                self._random_bytes(EPOCH_BYTES),
                "PX",
                _EPOCH_TTL_MS,
                deadline=deadline,
            )
            for shard in shards
        ]
        for each in began:
            await answered(each)

    async def flush(self, namespace: str, *, deadline: float) -> None:
        keys = self._keys_of(namespace)
        change = changes.encode(changes.Flushed(namespace_tag(self._secret, namespace)))
        await answered(
            self._store.script(
                entry_scripts.FLUSH,
                keys=[keys.epoch, keys.changes],
                args=[change, self._changes_kept, _EPOCH_TTL_MS, self._random_bytes(EPOCH_BYTES)],
                deadline=deadline,
            )
        )

    def scan_vectors(self, shard: int, walked: Walked | None = None) -> AsyncIterator[list[changes.Added]]:
        """Every vector that the shard keeps (from there on), in pages, now and then an empty one.

        What was there from the beginning to the end comes at least once. Each page has its own deadline.
        """
        return scan_vectors(self._store, shard, self.seal, walked)

    def walk(self, shard: int, walked: Walked | None = None) -> AsyncIterator[list[Header]]:
        """The headers of all that may be served from the shard now, in pages, as `scan_vectors`."""
        return scan_headers(self._store, shard, secret=self._secret, wall=self._wall, walked=walked)

    async def sample_seals(self, shard: int) -> tuple[int, int]:
        """Of some entries of the shard, how many are sealed and how many are not."""
        return await sample_seals(self._store, shard)

    async def account(self, owner: str) -> Account:
        """What the owner keeps, as its quota counts it."""
        return await account_of(self._store, self._keys_of(owner), now_s=self._wall())

    async def accounts(self, owner: str, namespaces: Sequence[str], *, until: float) -> Accounts:
        """The same by namespace, as far as that is known by then (monotonic)."""
        keys = {namespace: self._keys_of(namespace) for namespace in namespaces}
        return await accounts_of(self._store, self._keys_of(owner), keys, now_s=self._wall(), until=until)

    async def headers(self, shard: int, entry_ids: Sequence[int]) -> list[Header]:
        """Of these entries, where they are in the shard and may be served now."""
        names = [key_of(shard, f"e:{entry_id:016x}") for entry_id in entry_ids]
        return await headers_of(self._store, shard, names, secret=self._secret, now_s=self._wall())

    async def read(self, namespace: str, entry_id: int, *, deadline: float) -> Record | None:
        """An entry by its number, whatever its partition."""
        keys = self._keys_of(namespace)
        mget = self._store.execute("MGET", keys.epoch, keys.entry(entry_id), deadline=deadline)
        epoch, data = await answered(mget)
        record = None if data is None else entry_record.read(data, seal=self.seal)
        if record is None or (record.header.namespace, record.header.epoch) != (namespace, epoch):
            return None
        return record if record.entry.expires_at_s > self._wall() else None

    def valid(
        self, record: bytes | None, epoch: bytes | None, partition: Partition, entry_id: int
    ) -> Entry | None:
        """The entry in this record, if it may be served in this partition now."""
        if record is None or epoch is None:
            return None
        entry = entry_record.decode(
            record, entry_id=entry_id, partition=partition, epoch=epoch, seal=self.seal
        )
        return None if entry is None or entry.expires_at_s <= self._wall() else entry

    async def epoch(self, namespace: str, *, deadline: float) -> bytes:
        """The namespace's epoch and its shard's era, made now where there is none."""
        keys = self._keys_of(namespace)
        fresh = [self._random_bytes(EPOCH_BYTES) for _ in range(2)]
        begun = await answered(
            self._store.script(
                entry_scripts.BEGIN,
                keys=[keys.epoch, keys.era],
                args=[*fresh, _EPOCH_TTL_MS],
                deadline=deadline,
            )
        )
        return b"".join(begun)

    def removal_keys(self, keys: Keys) -> list[Argument]:
        return [keys.changes, keys.book]

    def removal_args(self, keys: Keys) -> list[Argument]:
        return [keys.prefix, _REMOVAL_HEAD, self._changes_kept, _EPOCH_TTL_MS]

    def _keys_of(self, namespace: str) -> Keys:
        return keys_in(self._secret, namespace)


def _pair(entry_id: int, answer_id: int) -> bytes:
    return b"%016x%016x" % (entry_id, answer_id)


def _packed(entry_id: int) -> bytes:
    return entry_id.to_bytes(8, "big")
