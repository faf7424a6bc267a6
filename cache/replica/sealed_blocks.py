"""Owns how bytes are kept in a file that may be meddled with: in blocks of at most a megabyte, behind a head in clear.

The head says whose they are. Each block is sealed as the store's records are, and authenticated under the deployment's
secret together with the head, its number and whether it is the last: nothing can be altered, moved, cut off or come
from elsewhere and be read.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Literal

import msgspec

from ..entries.sealing import Seal
from ..identity import digest

_MAGIC = b"echogate index\n\0"
_FORMAT = 1
_BLOCK = 1 << 20
_SEALED_BESIDE = 64  # bytes at most that sealing adds
_MAC = 32
_NUMBER = 4  # bytes of a length
_LONGEST_HEAD = 1 << 12

Why = Literal["absent", "unreadable", "damaged", "other-format", "foreign", "other-embedder"]


class SnapshotRefused(Exception):
    """There is no snapshot, or none that may be believed: the index has to be made from the store."""

    def __init__(self, why: Why, told: str = "") -> None:
        super().__init__(told or why)
        self.why: Why = why


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose snapshots are written and believed."""

    secret: bytes
    seal: Seal
    fingerprint: str
    dimension: int

    @property
    def deployment(self) -> bytes:
        return digest(self.secret, b"snapshot of\0")[:16]

    def key(self, salt: bytes) -> bytes:
        return digest(self.secret, b"snapshot\0" + salt)


class _Head(msgspec.Struct, array_like=True, frozen=True):
    deployment: bytes
    fingerprint: str
    dimension: int
    salt: bytes


_heads = msgspec.msgpack.Decoder(_Head)


class BlockWriter:
    """`pause` is called before each block, and may raise to end it."""

    def __init__(self, file: IO[bytes], owner: Owner, pause: Callable[[], None]) -> None:
        self._file = file
        self._seal = owner.seal
        self._pause = pause
        self._salt = os.urandom(16)
        self._key = owner.key(self._salt)
        self._waiting = bytearray()
        self._number = 0
        head = _Head(owner.deployment, owner.fingerprint, owner.dimension, self._salt)
        self._head = msgspec.msgpack.encode(head)
        file.write(_MAGIC + _number(_FORMAT) + _number(len(self._head)) + self._head)

    def write(self, data: memoryview) -> None:
        while data:
            room = _BLOCK - len(self._waiting)
            self._waiting += data[:room]
            data = data[room:]
            if len(self._waiting) == _BLOCK:
                self._block(is_last=False)

    def end(self) -> None:
        self._block(is_last=True)

    def _block(self, *, is_last: bool) -> None:
        self._pause()
        position = _position(self._number, is_last=is_last)
        sealed = self._seal.seal(bytes(self._waiting), place=b"snapshot\0" + self._salt, header=position)
        lead = _number(len(sealed)) + position
        self._file.write(lead + _mac(self._key, self._head, position, sealed))
        self._file.write(sealed)
        self._number += 1
        self._waiting.clear()


class BlockReader:
    """Raises `SnapshotRefused`, `Unsealable` or a `msgspec` error where the bytes cannot be believed."""

    def __init__(self, file: IO[bytes], owner: Owner) -> None:
        self._file = file
        self._seal = owner.seal
        self._size = os.fstat(file.fileno()).st_size
        self._number = 0
        self._is_last = False
        self._block = memoryview(b"")
        if file.read(len(_MAGIC)) != _MAGIC:
            raise SnapshotRefused("damaged")
        if file.read(_NUMBER) != _number(_FORMAT):
            raise SnapshotRefused("other-format")
        self._head = file.read(min(_LONGEST_HEAD, int.from_bytes(file.read(_NUMBER), "little")))
        head = _heads.decode(self._head)
        if head.deployment != owner.deployment:
            raise SnapshotRefused("foreign")
        if (head.fingerprint, head.dimension) != (owner.fingerprint, owner.dimension):
            raise SnapshotRefused(
                "other-embedder",
                f"made by {head.fingerprint} with vectors of {head.dimension} numbers; the embedder now is "
                f"{owner.fingerprint} with {owner.dimension}",
            )
        self._key = owner.key(head.salt)
        self._place = b"snapshot\0" + head.salt

    def take(self, count: int) -> bytes:
        self.check_fits(count)
        taken = bytearray(count)
        self.fill(memoryview(taken))
        return bytes(taken)

    def check_fits(self, count: int) -> None:
        """Before room is made for so many."""
        if not 0 <= count <= self._size:
            raise SnapshotRefused("damaged")

    def fill(self, target: memoryview) -> None:
        while target:
            if not self._block:
                self._next()
            count = min(len(target), len(self._block))
            target[:count] = self._block[:count]
            target, self._block = target[count:], self._block[count:]

    def _next(self) -> None:
        """Opens the next block. A file that ends before its last block is refused."""
        length = int.from_bytes(self._file.read(_NUMBER), "little")
        position = self._file.read(9)
        mac = self._file.read(_MAC)
        if self._is_last or length > _BLOCK + _SEALED_BESIDE:
            raise SnapshotRefused("damaged")
        sealed = self._file.read(length)
        is_last = position[-1:] == b"\1"
        is_genuine = hmac.compare_digest(mac, _mac(self._key, self._head, position, sealed))
        if not is_genuine or position != _position(self._number, is_last=is_last):
            raise SnapshotRefused("damaged")
        self._block = memoryview(self._seal.open(sealed, place=self._place, header=position))
        self._is_last = is_last
        self._number += 1

    def check_end(self) -> None:
        if not self._is_last or self._block or self._file.read(1):
            raise SnapshotRefused("damaged")


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "little")


def _position(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(8, "little") + bytes([is_last])


def _mac(key: bytes, head: bytes, position: bytes, sealed: bytes) -> bytes:
    made = hmac.new(key, head + position, "sha256")
    made.update(sealed)
    return made.digest()
