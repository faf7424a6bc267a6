"""Owns the stored form of an entry: a msgpack array that begins with its format version.

The record says whose it is (partition digest, epoch). Reading it under another partition or epoch, in another
format, or damaged, gives nothing.
"""

from __future__ import annotations

import msgspec

from .model import Answer, Entry, Partition

_FORMAT = 1


class _Record(msgspec.Struct, array_like=True, frozen=True):
    format: int
    partition: bytes
    epoch: bytes
    question: str
    text: str
    payload: bytes
    origin: dict[str, str]
    created_at_s: float
    expires_at_s: float


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


def encode(entry: Entry, partition: Partition, epoch: bytes) -> bytes:
    """Raises `UnicodeEncodeError` for a text with half a surrogate pair, which no store can hold."""
    answer = entry.answer
    return _encoder.encode(
        _Record(
            _FORMAT,
            partition.digest,
            epoch,
            entry.question,
            answer.text,
            answer.payload,
            dict(answer.origin),
            entry.created_at_s,
            entry.expires_at_s,
        )
    )


def decode(data: bytes, *, entry_id: int, partition: Partition, epoch: bytes) -> Entry | None:
    try:
        record = _decoder.decode(data)
    except msgspec.MsgspecError:
        return None
    if (record.format, record.partition, record.epoch) != (_FORMAT, partition.digest, epoch):
        return None
    answer = Answer(record.text, record.payload, record.origin)
    return Entry(entry_id, record.question, answer, record.created_at_s, record.expires_at_s)
