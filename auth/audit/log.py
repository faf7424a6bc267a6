"""Owns the audit log in the durable store: appends by one script that lets nobody in between, reads, verifies."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import msgspec
from redis.exceptions import RedisError

from ..errors import AuditUnavailable
from ..interfaces import Store
from .chain import START, Chain, Checkpoint, Head, Link
from .examination import Examination
from .model import AuditEntry, AuditRecord, AuditReport

_RECORDS, _END, _CHECKPOINTS = "eg:{audit}:records", "eg:{audit}:end", "eg:{audit}:checkpoints"
_FORMAT = b"1"
_RACES = 50
_CHUNK = 500
_MOST_CHECKPOINTS = 1_000
_KEY = re.compile(rb"\b(eg-[a-z0-9]{12}-|ega-)[A-Za-z0-9_-]{20,}")

# A record's number is its id in the stream, which takes none but the next higher. The end is compared as a
# whole: whoever appends must have seen the record before. At a checkpoint the oldest records may go.
_APPEND = """
local ending = redis.call('GET', KEYS[2]) or ''
if ending ~= ARGV[1] then return ending end
redis.call(
  'XADD', KEYS[1], ARGV[3] .. '-0', 'v', ARGV[4], 'body', ARGV[5], 'before', ARGV[6], 'code', ARGV[7])
redis.call('SET', KEYS[2], ARGV[2])
if ARGV[8] ~= '' then
  redis.call('XADD', KEYS[3], 'MAXLEN', ARGV[9], ARGV[3] .. '-0', 'checkpoint', ARGV[2])
  redis.call('XTRIM', KEYS[1], 'MINID', ARGV[8])
end
return false
"""


class AuditLog:
    """A log whose records follow on one another under `key`, which must not be in the store.

    Every `checkpoint_every` records a signed checkpoint is kept, and then all but the last `keep` records may
    go. Any number of processes may append to one log. All methods raise `AuditUnavailable` when the store
    cannot answer within `timeout_s` (a record may then have been appended nonetheless), `append` also when the
    log was written with another key.

    What somebody can do who may write to the store, but has no key: delete records, which shows; edit them,
    which shows; put the whole store back to an earlier state, which shows in a process that has seen a later one.
    """

    def __init__(
        self,
        store: Store,
        *,
        key: bytes,
        checkpoint_every: int = 1_000,
        keep: int = 1_000_000,
        timeout_s: float = 2.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._chain = Chain(key)
        self._checkpoint_every = checkpoint_every
        self._keep = keep
        self._timeout_s = timeout_s
        self._now = now
        self._end = b""  # as the store has it, as far as we know
        self._longest = START
        self._turn = asyncio.Lock()

    async def append(self, record: AuditRecord) -> AuditEntry:
        """The record in its place, when the store has it."""
        body = _without_keys(msgspec.json.encode(record))
        async with self._turn:  # against others the script decides; among ourselves there need be no race
            for _ in range(_RACES):
                link = self._chain.next(self._signed_end(), body)
                head = Head(link.number, link.code)
                end = _encoded(self._chain.sign(head, at_s=record.at_s))
                present = await self._append(link, end)
                if present is None:
                    self._end = end
                    self._see(head)
                    return AuditEntry(link.number, _record(link))
                self._end = present
        raise AuditUnavailable("Others append to the audit log all the time.")

    async def read(self, *, after: int = 0, limit: int = 100) -> Sequence[AuditEntry]:
        """At most `limit` records that follow on number `after`, oldest first. They are not verified."""
        return [AuditEntry(link.number, _record(link)) for link in await self._links(after, limit)]

    async def length(self) -> int:
        """The number of the last record, 0 if there is none."""
        return (await self._read_end()).head.number

    async def verify(self, *, from_checkpoint: bool = True) -> AuditReport:
        """Check the records since the last checkpoint, or all there are."""
        end = await self._read_end()
        first = await self._links(0, 1)
        examination = Examination(
            self._chain,
            checkpoints=await self._checkpoints(),
            end=end,
            first=first[0].number if first else 0,
            from_checkpoint=from_checkpoint,
        )
        async for link in self._links_after(examination.since):
            examination.look(link)
        if examination.last > end.head.number:  # somebody has appended meanwhile, unless the end is wrong
            end = await self._read_end()
        report = examination.report(end, self._longest)
        if report.is_intact:
            self._see(end.head)
        return report

    def _signed_end(self) -> Head:
        """What the next record follows on. Nothing is appended to what others wrote: it would vouch for it."""
        end = _decoded(self._end)
        if end.head != START and not self._chain.is_signed(end):
            raise AuditUnavailable(
                "The audit log in the store does not end as one that was written with this audit key. Put the "
                "key back that wrote it, or keep the log elsewhere and delete its store keys eg:{audit}:*."
            )
        return end.head

    # --- the store

    async def _append(self, link: Link, end: bytes) -> bytes | None:
        """None, or how the log ends otherwise than we thought."""
        is_checkpoint = link.number % self._checkpoint_every == 0
        oldest = f"{max(0, link.number - self._keep) + 1}-0" if is_checkpoint else ""
        known = (self._end, end, link.number, _FORMAT, link.body, link.before, link.code)
        reply: bytes | None = await self._answer(
            self._store.script(
                _APPEND,
                keys=(_RECORDS, _END, _CHECKPOINTS),
                args=(*known, oldest, _MOST_CHECKPOINTS),
                deadline=self._deadline(),
            )
        )
        return reply

    async def _links_after(self, number: int) -> AsyncIterator[Link]:
        while links := await self._links(number, _CHUNK):
            for link in links:
                yield link
            number = links[-1].number

    async def _links(self, after: int, limit: int) -> list[Link]:
        replies = await self._ask("XRANGE", _RECORDS, f"({after}-0", "+", "COUNT", limit)
        return [_link(entry_id, fields) for entry_id, fields in replies]

    async def _checkpoints(self) -> list[Checkpoint]:
        replies = await self._ask("XRANGE", _CHECKPOINTS, "-", "+", "COUNT", _MOST_CHECKPOINTS)
        return [_decoded(fields[1]) for _, fields in replies]

    async def _read_end(self) -> Checkpoint:
        return _decoded(await self._ask("GET", _END) or b"")

    async def _ask(self, *command: bytes | str | int) -> Any:
        return await self._answer(self._store.execute(*command, deadline=self._deadline()))

    async def _answer(self, reply: Awaitable[Any]) -> Any:
        try:
            return await reply
        except (OSError, RedisError) as error:
            raise AuditUnavailable(
                f"The store does not take or give audit records ({type(error).__name__}). If it stays so, "
                "verify the audit log."
            ) from error

    def _deadline(self) -> float:
        return self._now() + self._timeout_s

    def _see(self, head: Head) -> None:
        self._longest = max(self._longest, head, key=lambda each: each.number)


def _encoded(checkpoint: Checkpoint) -> bytes:
    return msgspec.msgpack.encode(checkpoint)


def _decoded(stored: bytes) -> Checkpoint:
    """What cannot be read is a checkpoint that nobody signed."""
    if not stored:
        return Checkpoint(START, 0.0, b"")
    try:
        return msgspec.msgpack.decode(stored, type=Checkpoint)
    except msgspec.MsgspecError:
        return Checkpoint(Head(0, b"unreadable"), 0.0, b"")


def _link(entry_id: bytes, fields: Sequence[bytes]) -> Link:
    """What is not a record of ours has nothing that could fit its code."""
    values = dict(zip(fields[::2], fields[1::2], strict=False))
    known = values if values.get(b"v") == _FORMAT else {}
    number = int(entry_id.partition(b"-")[0])
    return Link(number, *(known.get(name, b"") for name in (b"body", b"before", b"code")))


def _record(link: Link) -> AuditRecord:
    try:
        return msgspec.json.decode(link.body, type=AuditRecord)
    except msgspec.MsgspecError:
        return AuditRecord(at_s=0.0, actor="", role="", action="unreadable", target="", outcome="")


def _without_keys(body: bytes) -> bytes:
    return _KEY.sub(rb"\1[removed]", body)
