"""What a worker finds out about a namespace, and the form in which it reaches the others: batches of small events.

No texts: numbers, ids and keyed digests of words.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from .drift import Lengths

Row = tuple[float, ...]
_FORMAT = 1


class Audit(msgspec.Struct, frozen=True, array_like=True, tag="a"):
    """A stored answer was compared with a fresh one.

    `source`: of a miss, whose answer was fresh anyway, or of a hit that was asked of a backend as well. `draw` is the
    probability with which it was chosen, `would_serve` whether the rules of the moment accept the pair.
    """

    row: Row
    is_right: bool
    source: Literal["shadow", "served"]
    draw: float
    would_serve: bool
    similarity: float
    judge: str
    at_s: float


class Raised(msgspec.Struct, frozen=True, array_like=True, tag="r"):
    """An entry was wrong at this similarity: it is to be served above it only. A newer answer begins anew."""

    entry_id: int
    similarity: float
    at_s: float


class Aliased(msgspec.Struct, frozen=True, array_like=True, tag="l"):
    """Two questions were found to have the same answer: the entry of one belongs to the other's. With its own number
    as the root's: that was found wrong, and it stands for itself again."""

    entry_id: int
    root_id: int


class Reported(msgspec.Struct, frozen=True, array_like=True, tag="w"):
    """A caller said that an answer was wrong. `key` stands for the caller's key."""

    key: bytes
    at_s: float


class Traffic(msgspec.Struct, frozen=True, array_like=True, tag="t"):
    """What hits were scored by."""

    rows: tuple[Row, ...]


class Words(msgspec.Struct, frozen=True, array_like=True, tag="d"):
    """In how many of `texts` questions each word stood, and how long they were."""

    texts: int
    counts: dict[bytes, int]
    lengths: Lengths = Lengths()
    at_s: float = 0.0


Event = Audit | Raised | Aliased | Reported | Traffic | Words


class _Batch(msgspec.Struct, frozen=True, array_like=True):
    format: int
    events: list[Event]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(_Batch)


def encode(events: list[Event]) -> bytes:
    return _encoder.encode(_Batch(_FORMAT, events))


def decode(data: bytes) -> list[Event]:
    """Nothing for a batch of another format, or a damaged one."""
    try:
        batch = _decoder.decode(data)
    except msgspec.MsgspecError:
        return []
    return batch.events if batch.format == _FORMAT else []
