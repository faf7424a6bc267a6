"""Decides what makes an audit log trustworthy: each record's code covers the one before it, under a key that the
store does not have. Pure functions over bytes; where they are kept is log.py's."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import NamedTuple

_CODE_BYTES = 32
_LEAST_KEY_BYTES = 32
# What is signed says first what it is, so that no code of one kind can be passed off as another.
_RECORD, _CHECKPOINT = b"echogate audit record 1\0", b"echogate audit checkpoint 1\0"


class Head(NamedTuple):
    """The end of a log: the number of its last record (0: none yet), and that record's code."""

    number: int
    code: bytes


START = Head(0, bytes(_CODE_BYTES))


@dataclass(frozen=True, slots=True)
class Link:
    """A record as it is kept. `before` is the code of the record before it."""

    number: int
    body: bytes
    before: bytes
    code: bytes


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """That a log ended so at that moment, signed. It holds what came before in place, even when that is gone."""

    head: Head
    at_s: float
    signature: bytes


class Chain:
    """Makes and checks codes. Raises ValueError for a key of less than 32 bytes."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _LEAST_KEY_BYTES:
            raise ValueError(f"The audit key has {len(key)} bytes; it needs at least {_LEAST_KEY_BYTES}.")
        self._key = key

    def __repr__(self) -> str:
        return "<Chain>"

    def next(self, head: Head, body: bytes) -> Link:
        number = head.number + 1
        return Link(number, body, head.code, self._record_code(number, head.code, body))

    def is_genuine(self, link: Link) -> bool:
        if len(link.before) != _CODE_BYTES:
            return False
        return hmac.compare_digest(self._record_code(link.number, link.before, link.body), link.code)

    def sign(self, head: Head, *, at_s: float) -> Checkpoint:
        return Checkpoint(head, at_s, self._signature(head, at_s))

    def is_signed(self, checkpoint: Checkpoint) -> bool:
        return hmac.compare_digest(self._signature(checkpoint.head, checkpoint.at_s), checkpoint.signature)

    def _record_code(self, number: int, before: bytes, body: bytes) -> bytes:
        return self._code(_RECORD, b"%d\0" % number, before, body)

    def _signature(self, head: Head, at_s: float) -> bytes:
        return self._code(_CHECKPOINT, b"%d\0" % head.number, head.code, repr(at_s).encode())

    def _code(self, *parts: bytes) -> bytes:
        # Every part but the last has a fixed length or an end mark, so that none can run into the next.
        return hmac.new(self._key, b"".join(parts), hashlib.sha256).digest()
