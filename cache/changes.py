"""Owns the form of a change record: what one worker writes to a shard's stream and all others read.

A record of an unknown format or with damaged content is no change: readers pass over it. Vectors are sealed like what
people said, of which they tell much.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
from msgspec.structs import replace

from .entries.sealing import Seal, Unsealable, Unsealed
from .model import Vector
from .vectors import UnusableVector, from_bytes, to_bytes

FIELD = "c"  # the one field of a stream item
_FORMAT = 2


@dataclass(frozen=True, slots=True)
class Added:
    """`epoch` is the namespace's at the time of writing: under another one it is not there any more."""

    space: bytes
    entry_id: int
    vector: Vector
    expires_at_s: float
    epoch: bytes = b""


@dataclass(frozen=True, slots=True)
class Removed:
    space: bytes
    entry_id: int


@dataclass(frozen=True, slots=True)
class Flushed:
    namespace_tag: bytes


Change = Added | Removed | Flushed


class _Record(msgspec.Struct, array_like=True, frozen=True):
    format: int
    kind: str
    place: bytes  # a space, or a namespace tag
    entry_id: int = 0
    vector: bytes = b""
    expires_at_s: float = 0.0
    epoch: bytes = b""


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Record)


_NO_SEAL = Unsealed()


def encode(change: Change, seal: Seal = _NO_SEAL) -> bytes:
    match change:
        case Added():
            record = _Record(
                _FORMAT, "add", change.space, change.entry_id, b"", change.expires_at_s, change.epoch
            )
            sealed = seal.seal(to_bytes(change.vector), place=change.space, header=_encoder.encode(record))
            record = replace(record, vector=sealed)
        case Removed():
            record = _Record(_FORMAT, "remove", change.space, change.entry_id)
        case Flushed():
            record = _Record(_FORMAT, "flush", change.namespace_tag)
    return _encoder.encode(record)


def removal_head() -> bytes:
    """With a space (32 bytes), 0xCF and an entry id (8 bytes) behind it, it is the record of a removal: for those who
    make one where this code does not run."""
    whole = _encoder.encode((_FORMAT, "remove", bytes(32)))
    return b"\x94" + whole[1:-32]  # an array of four


def decode(data: bytes, seal: Seal = _NO_SEAL) -> Change | None:
    try:
        record = _decoder.decode(data)
        if record.format != _FORMAT:
            return None
        if record.kind == "add":
            header = _encoder.encode(replace(record, vector=b""))
            vector = from_bytes(seal.open(record.vector, place=record.place, header=header))
            return Added(record.place, record.entry_id, vector, record.expires_at_s, record.epoch)
    except (msgspec.MsgspecError, UnusableVector, Unsealable):
        return None
    if record.kind == "remove":
        return Removed(record.place, record.entry_id)
    return Flushed(record.place) if record.kind == "flush" else None
