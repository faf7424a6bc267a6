"""Takes entries out of one deployment and into another, as plain values.

Names that hang on the deployment's secret (partitions, entry numbers) are made anew where they come in. Tags cannot be
made anew: to another deployment entries come without them. Vectors are not taken along: there may be another embedder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Literal

import msgspec

from .. import identity
from ..embed import EmbedQueue, NoEmbedder
from ..errors import EmbedderBusy, UnfitText
from ..interfaces import Outcome
from ..model import Answer, Entry, Partition, Question, Ticket, Vector
from .record import Header, Record
from .store import RedisEntries

FORMAT: Literal["echogate-entry/1"] = "echogate-entry/1"
_DEADLINE_S = 5.0
_EMBED_S = 10.0


class Exported(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A line of an export. `deployment` tells whether tags mean anything; `source` is the plain digest of all that must
    match exactly."""

    format: Literal["echogate-entry/1"]
    deployment: bytes
    namespace: str
    source: bytes
    question: str
    text: str
    payload: bytes
    origin: dict[str, str]
    tags: dict[str, bytes]
    created_at_s: float
    expires_at_s: float
    is_similar: bool


class NotAnEntry(ValueError):
    """The line is no entry of an export. The message says why, and nothing of what it holds."""


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Exported)


class Transfer:
    """`most_ttl_s`: what comes in is kept no longer than that, however long it had to live."""

    def __init__(
        self,
        entries: RedisEntries,
        embed: EmbedQueue | NoEmbedder,
        *,
        secret: bytes,
        most_ttl_s: float,
        max_entry_bytes: int = 1 << 20,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._entries = entries
        self._embed = embed
        self._secret = secret
        self._deployment = identity.digest(secret, b"deployment")[:8]
        self._most_ttl_s = most_ttl_s
        self._max_entry_bytes = max_entry_bytes
        self._wall = wall

    async def line(self, header: Header) -> bytes | None:
        """The entry as JSON, without a newline; None where it has gone. Raises `StoreUnavailable`."""
        record = await self._entries.read(header.namespace, header.entry_id, deadline=_soon())
        return None if record is None else _encoder.encode(self._exported(record))

    async def take_in(self, line: bytes) -> Outcome | Literal["expired", "too-large"]:
        """Raises `NotAnEntry`, and `StoreUnavailable` where the store does not answer."""
        try:
            found = _decoder.decode(line)
        except msgspec.DecodeError as error:
            raise NotAnEntry(str(error)[:200]) from error  # it names members and types, no values
        if len(found.source) != 32:
            raise NotAnEntry(f"source has {len(found.source)} bytes; expected 32")
        if len(found.question) + len(found.text) + len(found.payload) > self._max_entry_bytes:
            return "too-large"
        now_s = self._wall()
        expires_at_s = min(found.expires_at_s, now_s + self._most_ttl_s)
        created_at_s = min(found.created_at_s, now_s)
        if not expires_at_s > now_s:  # a time that is no number is past, too
            return "expired"
        partition = identity.partition_of(self._secret, found.namespace, found.source)
        named = identity.entry_id(self._secret, partition, found.question)
        tags = found.tags if found.deployment == self._deployment else {}
        answer = Answer(found.text, found.payload, found.origin, tags)
        entry = Entry(named, found.question, answer, created_at_s, expires_at_s)
        ticket = await self._ticket(partition, entry, is_similar=found.is_similar)
        return await self._entries.put(ticket, entry, deadline=_soon())

    async def _ticket(self, partition: Partition, entry: Entry, *, is_similar: bool) -> Ticket:
        question = Question(partition, entry.question)
        epoch = await self._entries.epoch(partition.namespace, deadline=_soon())
        vector = await self._vector(entry.question) if is_similar else None
        if vector is None:
            return Ticket(question, entry.entry_id, epoch)
        return Ticket(
            question,
            entry.entry_id,
            epoch,
            vector=vector,
            space=identity.space(self._secret, partition, self._embed.fingerprint),
            canonical_id=identity.canonical_id(self._secret, partition, entry.question),
        )

    async def _vector(self, text: str) -> Vector | None:
        """None: then it answers equal texts only."""
        try:
            deadline = time.monotonic() + _EMBED_S
            return (await self._embed.embed(text, deadline=deadline, is_background=True)).vector
        except (UnfitText, EmbedderBusy):
            return None

    def _exported(self, record: Record) -> Exported:
        header, entry = record.header, record.entry
        return Exported(
            FORMAT,
            self._deployment,
            header.namespace,
            record.source,
            entry.question,
            entry.answer.text,
            entry.answer.payload,
            dict(entry.answer.origin),
            dict(header.tags),
            entry.created_at_s,
            entry.expires_at_s,
            header.is_similar,
        )


def _soon() -> float:
    return time.monotonic() + _DEADLINE_S
