"""Owns the stored form of an entry: a header that anyone may read who reads the store, and a body that may be sealed.

The header says whose it is (namespace, partition, epoch), what it has to do with (tags, as keyed digests), how big it
is and until when it counts; the body holds what was said. Reading a record under another partition or epoch, in another
format, or damaged, gives nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

import msgspec

from ..model import Answer, Entry, Partition, Value
from .sealing import PLAIN, Seal, Unsealable

_FORMAT = 2
_FRAME = Struct(">BI")  # format, length of the header
HEADER_BYTES = 2048  # so much of a record has its header, nearly always


class Header(Value, frozen=True, array_like=True):
    """`size` is that of the texts and the payload in bytes. `is_similar`: it has a vector, for similar questions."""

    _unsaid = frozenset({"partition", "epoch"})

    entry_id: int
    namespace: str
    partition: bytes
    epoch: bytes
    created_at_s: float
    expires_at_s: float
    size: int
    is_similar: bool
    tags: Mapping[str, bytes]


class _Body(msgspec.Struct, array_like=True, frozen=True):
    question: str
    text: str
    payload: bytes
    origin: dict[str, str]
    source: bytes


class Record(Value, frozen=True):
    """A whole record, for those who look through the store and ask no question. `source` as in `Partition`."""

    header: Header
    entry: Entry
    source: bytes


_encoder = msgspec.msgpack.Encoder()
_headers = msgspec.msgpack.Decoder(Header)
_bodies = msgspec.msgpack.Decoder(_Body)


def encode(entry: Entry, partition: Partition, epoch: bytes, *, is_similar: bool, seal: Seal) -> bytes:
    """Raises `UnicodeEncodeError` for a text with half a surrogate pair, which no store can hold."""
    answer = entry.answer
    body = _encoder.encode(
        _Body(entry.question, answer.text, answer.payload, dict(answer.origin), partition.source)
    )
    header = _encoder.encode(
        Header(
            entry.entry_id,
            partition.namespace,
            partition.digest,
            epoch,
            entry.created_at_s,
            entry.expires_at_s,
            len(body),
            is_similar,
            dict(answer.tags),
        )
    )
    sealed = seal.seal(body, place=partition.digest, header=header)
    return _FRAME.pack(_FORMAT, len(header)) + header + sealed


def header_of(data: bytes) -> Header | int | None:
    """The header of a record, of which this may be only the beginning; how much more of it is needed; or None."""
    if len(data) < _FRAME.size:
        return None
    form, length = _FRAME.unpack_from(data)
    if form != _FORMAT:
        return None
    end = _FRAME.size + length
    if end > len(data):
        return int(end)
    try:
        return _headers.decode(memoryview(data)[_FRAME.size : end])
    except msgspec.MsgspecError:
        return None


def is_sealed(data: bytes) -> bool | None:
    """None where that cannot be told from the beginning of a record."""
    if len(data) < _FRAME.size or not isinstance(header_of(data), Header):
        return None
    body = data[_FRAME.size + _FRAME.unpack_from(data)[1] :]
    return not body.startswith(PLAIN) if len(body) >= len(PLAIN) else None


def decode(data: bytes, *, entry_id: int, partition: Partition, epoch: bytes, seal: Seal) -> Entry | None:
    header = header_of(data)
    if not isinstance(header, Header):
        return None
    if (header.entry_id, header.partition, header.epoch) != (entry_id, partition.digest, epoch):
        return None
    record = _opened(data, header, seal)
    return None if record is None else record.entry


def read(data: bytes, *, seal: Seal) -> Record | None:
    """Whosever it is."""
    header = header_of(data)
    return _opened(data, header, seal) if isinstance(header, Header) else None


def _opened(data: bytes, header: Header, seal: Seal) -> Record | None:
    end = _FRAME.size + _FRAME.unpack_from(data)[1]
    try:
        opened = seal.open(data[end:], place=header.partition, header=data[_FRAME.size : end])
        body = _bodies.decode(opened)
    except (Unsealable, msgspec.MsgspecError):
        return None
    answer = Answer(body.text, body.payload, body.origin, header.tags)
    entry = Entry(header.entry_id, body.question, answer, header.created_at_s, header.expires_at_s)
    return Record(header, entry, body.source)
