"""Keeps entries in a Redis-protocol store: one read per look-up, one script per write, a TTL on every key.

Each namespace has an epoch, 8 random bytes. An entry carries the epoch it was written under and counts only
while that is still the namespace's: a flush is a new epoch, and an epoch lost to eviction makes its entries
invisible, never valid. A write names the epoch read at look-up and comes to nothing if that has changed.
Every change is announced in the stream of the namespace's shard, in the same script.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Generator, Sequence
from typing import Any, cast

from . import changes, entry_record
from .entry_scan import answered, scan_vectors
from .identity import Keys, answer_id, namespace_tag
from .interfaces import Found, ShardedStore
from .model import Entry, Partition, Question, Ticket

# An epoch must survive the longest generation between a look-up and its write; writes prolong it.
_EPOCH_TTL_MS = 3_600_000
_REMEMBERED_KEYS = 4096

# KEYS: epoch, entry, changes, blocked, vector. ARGV: epoch at look-up, record, TTL in ms, change ("" for none), stream
# bound, the pair of question and answer. What is announced is kept as well: the stream forgets, an index must not.
_PUT = """
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('SISMEMBER', KEYS[4], ARGV[6]) == 1 then return 0 end
local ttl = tonumber(ARGV[3])
redis.call('SET', KEYS[2], ARGV[2], 'PX', ttl)
if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
if ARGV[4] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', '~', ARGV[5], '*', 'c', ARGV[4])
  if redis.call('PTTL', KEYS[3]) < ttl then redis.call('PEXPIRE', KEYS[3], ttl) end
  redis.call('SET', KEYS[5], ARGV[4], 'PX', ttl)
else
  redis.call('DEL', KEYS[5])
end
return 1
"""

# KEYS: entry, changes, vector. ARGV: change, stream bound, TTL in ms for a stream without one.
_REMOVE = """
local removed = redis.call('DEL', KEYS[1])
redis.call('DEL', KEYS[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'c', ARGV[1])
if redis.call('PTTL', KEYS[2]) < 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return removed
"""

# KEYS: entry, changes, blocked, vector. ARGV: change, stream bound, TTL in ms, the pair of question and answer.
_BLOCK = """
redis.call('SADD', KEYS[3], ARGV[4])
redis.call('PEXPIRE', KEYS[3], ARGV[3])
redis.call('DEL', KEYS[1], KEYS[4])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'c', ARGV[1])
if redis.call('PTTL', KEYS[2]) < 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return 1
"""

# KEYS: epoch, changes. ARGV: change, stream bound, TTL in ms, new epoch.
_FLUSH = """
redis.call('SET', KEYS[1], ARGV[4], 'PX', ARGV[3])
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[2], '*', 'c', ARGV[1])
if redis.call('PTTL', KEYS[2]) < 0 then redis.call('PEXPIRE', KEYS[2], ARGV[3]) end
return 1
"""


class RedisEntries:
    """`EntryStore` over the composer's store client.

    `changes_kept` bounds each shard's stream (about 1.6 kB an item): what a restarted worker can get back.
    """

    def __init__(
        self,
        store: ShardedStore,
        *,
        secret: bytes,
        changes_kept: int = 16_384,
        wall: Callable[[], float] = time.time,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._store = store
        self._secret = secret
        self._changes_kept = changes_kept
        self._wall = wall
        self._random_bytes = random_bytes
        self._keys: dict[str, Keys] = {}

    def find(self, question: Question, entry_id: int, *, deadline: float) -> _Finding:
        keys = self._keys_of(question.partition.namespace)
        reply = self._store.execute("MGET", keys.entry(entry_id), keys.epoch, deadline=deadline)
        return _Finding(self, question, entry_id, reply, deadline)

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

    async def put(self, ticket: Ticket, entry: Entry, *, deadline: float) -> bool:
        ttl_ms = int((entry.expires_at_s - self._wall()) * 1000)
        if ticket.epoch is None or ttl_ms <= 0:
            return False
        partition = ticket.question.partition
        keys = self._keys_of(partition.namespace)
        announced = b""
        if ticket.vector is not None and ticket.space is not None:
            announced = changes.encode(
                changes.Added(ticket.space, entry.entry_id, ticket.vector, entry.expires_at_s, ticket.epoch)
            )
        written = await answered(
            self._store.script(
                _PUT,
                keys=[
                    keys.epoch,
                    keys.entry(entry.entry_id),
                    keys.changes,
                    keys.blocked,
                    keys.vector(entry.entry_id),
                ],
                args=[
                    ticket.epoch,
                    entry_record.encode(entry, partition, ticket.epoch),
                    ttl_ms,
                    announced,
                    self._changes_kept,
                    _pair(entry.entry_id, answer_id(self._secret, entry.answer.text)),
                ],
                deadline=deadline,
            )
        )
        return bool(written)

    async def block(self, namespace: str, entry_id: int, answer_id: int, *, deadline: float) -> None:
        keys = self._keys_of(namespace)
        change = changes.encode(changes.Removed(namespace_tag(self._secret, namespace), entry_id))
        await answered(
            self._store.script(
                _BLOCK,
                keys=[keys.entry(entry_id), keys.changes, keys.blocked, keys.vector(entry_id)],
                args=[change, self._changes_kept, _EPOCH_TTL_MS, _pair(entry_id, answer_id)],
                deadline=deadline,
            )
        )

    async def remove(self, namespace: str, entry_id: int, *, deadline: float) -> bool:
        keys = self._keys_of(namespace)
        change = changes.Removed(namespace_tag(self._secret, namespace), entry_id)
        removed = await answered(
            self._store.script(
                _REMOVE,
                keys=[keys.entry(entry_id), keys.changes, keys.vector(entry_id)],
                args=[changes.encode(change), self._changes_kept, _EPOCH_TTL_MS],
                deadline=deadline,
            )
        )
        return cast(int, removed) > 0

    async def flush(self, namespace: str, *, deadline: float) -> None:
        keys = self._keys_of(namespace)
        change = changes.encode(changes.Flushed(namespace_tag(self._secret, namespace)))
        await answered(
            self._store.script(
                _FLUSH,
                keys=[keys.epoch, keys.changes],
                args=[change, self._changes_kept, _EPOCH_TTL_MS, self._random_bytes(8)],
                deadline=deadline,
            )
        )

    def scan_vectors(self, shard: int) -> AsyncIterator[list[changes.Added]]:
        """Every vector that the shard keeps, in pages, for an index that cannot be had from the stream.

        What was there from the beginning to the end comes at least once. Each page has its own deadline.
        """
        return scan_vectors(self._store, shard)

    def valid(
        self, record: bytes | None, epoch: bytes | None, partition: Partition, entry_id: int
    ) -> Entry | None:
        """The entry in this record, if it may be served in this partition now."""
        if record is None or epoch is None:
            return None
        entry = entry_record.decode(record, entry_id=entry_id, partition=partition, epoch=epoch)
        return None if entry is None or entry.expires_at_s <= self._wall() else entry

    async def epoch(self, namespace: str, *, deadline: float) -> bytes:
        """The namespace's epoch, made now if there is none. Whoever comes second gets the first one's."""
        fresh = self._random_bytes(8)
        name = self._keys_of(namespace).epoch
        earlier = await answered(
            self._store.execute("SET", name, fresh, "NX", "GET", "PX", _EPOCH_TTL_MS, deadline=deadline)
        )
        return fresh if earlier is None else cast(bytes, earlier)

    def _keys_of(self, namespace: str) -> Keys:
        keys = self._keys.get(namespace)
        if keys is None:
            if len(self._keys) >= _REMEMBERED_KEYS:
                self._keys.clear()
            keys = self._keys[namespace] = Keys(self._secret, namespace)
        return keys


class _Finding:
    """A look-up whose command is on its way. Left unawaited it does no harm (a coroutine would warn)."""

    __slots__ = ("_deadline", "_entries", "_entry_id", "_question", "_reply")

    def __init__(
        self,
        entries: RedisEntries,
        question: Question,
        entry_id: int,
        reply: asyncio.Future[Any],
        deadline: float,
    ) -> None:
        self._entries = entries
        self._question = question
        self._entry_id = entry_id
        self._reply = reply
        self._deadline = deadline

    def __await__(self) -> Generator[Any, None, Found]:
        return self._found().__await__()

    def cancel(self) -> None:
        self._reply.cancel()

    async def _found(self) -> Found:
        record, epoch = await answered(self._reply)
        partition = self._question.partition
        if epoch is None:
            # The first question of a namespace, or its epoch was evicted: one more round trip, then no more.
            return Found(None, await self._entries.epoch(partition.namespace, deadline=self._deadline))
        entry = self._entries.valid(record, epoch, partition, self._entry_id)
        if entry is not None and entry.question != self._question.text:
            entry = None  # two texts with one 63-bit id
        return Found(entry, epoch)


def _pair(entry_id: int, answer_id: int) -> bytes:
    return b"%016x%016x" % (entry_id, answer_id)
