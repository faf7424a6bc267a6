"""Owns the form of a snapshot: the spaces of a process, and where in the streams it was, in one file.

A head in clear says what it is and for whom. Behind it come blocks of at most a megabyte, each sealed as the store's
records are, and authenticated under the deployment's secret together with the head, its number and whether it is the
last: nothing can be altered, moved, cut off or come from elsewhere and be read. What is read is numbers and names;
there is nothing in it that could be carried out.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..identity import digest
from ..index import FrozenSpace
from ..sealing import Seal, Unsealable
from .place import Place

_MAGIC = b"echogate index\n\0"
_FORMAT = 1
_BLOCK = 1 << 20
_SEALED_BESIDE = 64  # bytes at most that sealing adds
_MAC = 32
_NUMBER = 4  # bytes of a length
_LONGEST_HEAD = 1 << 12
_KINDS = {"<f4", "<f2"}

Why = Literal["absent", "unreadable", "damaged", "other-format", "foreign", "other-embedder"]


class SnapshotRefused(Exception):
    """There is no snapshot, or none that may be believed: the index has to be made from the store."""

    def __init__(self, why: Why) -> None:
        super().__init__(why)
        self.why: Why = why


class Contents(msgspec.Struct, array_like=True, frozen=True):
    """What a snapshot holds beside the spaces. `shards` tells which shard a namespace's tag belongs to."""

    places: list[Place]
    shards: dict[bytes, int]
    written_at_s: float


class _Head(msgspec.Struct, array_like=True, frozen=True):
    deployment: bytes
    fingerprint: str
    salt: bytes


class _Frame(msgspec.Struct, array_like=True, frozen=True):
    """What stands before a space's arrays."""

    name: bytes
    rows: int
    dimension: int
    kind: str
    clusters: int
    probes: int


_heads = msgspec.msgpack.Decoder(_Head)
_contents = msgspec.msgpack.Decoder(Contents)
_frames = msgspec.msgpack.Decoder(_Frame | None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    contents: Contents
    spaces: list[FrozenSpace]


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose snapshots are written and believed."""

    secret: bytes
    seal: Seal
    fingerprint: str

    @property
    def deployment(self) -> bytes:
        return digest(self.secret, b"snapshot of\0")[:16]

    def key(self, salt: bytes) -> bytes:
        return digest(self.secret, b"snapshot\0" + salt)


class SnapshotWriter:
    """Made by `writing`."""

    def __init__(self, file: IO[bytes], owner: Owner) -> None:
        self._file = file
        self._seal = owner.seal
        self._salt = os.urandom(16)
        self._key = owner.key(self._salt)
        self._waiting = bytearray()
        self._number = 0
        self._head = msgspec.msgpack.encode(_Head(owner.deployment, owner.fingerprint, self._salt))
        file.write(_MAGIC + _number(_FORMAT) + _number(len(self._head)) + self._head)

    def begin(self, contents: Contents) -> None:
        self._frame(contents)

    def add(self, space: FrozenSpace) -> None:
        rows, dimension = space.vectors.shape
        kind = space.vectors.dtype.newbyteorder("<").str
        clusters = 0 if space.centroids is None else len(space.centroids)
        self._frame(_Frame(space.name, rows, dimension, kind, clusters, space.probes))
        for array in (space.ids, space.expires_at_s, space.vectors, space.centroids, space.lists):
            if array is not None and array.size:
                little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
                self._write(little.data.cast("B"))

    def end(self) -> None:
        self._frame(None)
        self._block(is_last=True)

    def _frame(self, value: Any) -> None:
        encoded = msgspec.msgpack.encode(value)
        self._write(memoryview(_number(len(encoded)) + encoded))

    def _write(self, data: memoryview) -> None:
        while data:
            room = _BLOCK - len(self._waiting)
            self._waiting += data[:room]
            data = data[room:]
            if len(self._waiting) == _BLOCK:
                self._block(is_last=False)

    def _block(self, *, is_last: bool) -> None:
        position = _position(self._number, is_last=is_last)
        sealed = self._seal.seal(bytes(self._waiting), place=b"snapshot\0" + self._salt, header=position)
        lead = _number(len(sealed)) + position
        self._file.write(lead + _mac(self._key, self._head, position, sealed))
        self._file.write(sealed)
        self._number += 1
        self._waiting.clear()


@contextmanager
def writing(path: Path, owner: Owner) -> Iterator[SnapshotWriter]:
    """The file appears whole when the block ends, or not at all; nobody else may read it. Blocking."""
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            writer = SnapshotWriter(file, owner)
            yield writer
            writer.end()
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        _sync(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def read(path: Path, owner: Owner) -> Snapshot:
    """Blocking. Raises `SnapshotRefused`: everything is believed, or nothing."""
    try:
        with path.open("rb") as file:
            source = _Source(file, owner)
            contents = source.frame(_contents)
            spaces = list(source.spaces())
            source.check_end()
            return Snapshot(contents, spaces)
    except FileNotFoundError:
        raise SnapshotRefused("absent") from None
    except OSError as error:
        raise SnapshotRefused("unreadable") from error
    except (msgspec.MsgspecError, RecursionError, Unsealable, ValueError) as error:
        raise SnapshotRefused("damaged") from error


class _Source:
    """The blocks of a file as one run of bytes."""

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
        if head.fingerprint != owner.fingerprint:
            raise SnapshotRefused("other-embedder")
        self._key = owner.key(head.salt)
        self._place = b"snapshot\0" + head.salt

    def frame(self, decoder: msgspec.msgpack.Decoder[Any]) -> Any:
        length = int.from_bytes(self._bytes(_NUMBER), "little")
        return decoder.decode(self._bytes(length))

    def spaces(self) -> Iterator[FrozenSpace]:
        while (frame := self.frame(_frames)) is not None:
            if frame.kind not in _KINDS:
                raise SnapshotRefused("damaged")
            is_drawn = frame.clusters > 0
            yield FrozenSpace(
                frame.name,
                self._array("<i8", frame.rows),
                self._array("<f8", frame.rows),
                self._array(frame.kind, frame.rows, frame.dimension),
                self._array("<f4", frame.clusters, frame.dimension) if is_drawn else None,
                self._array("<i4", frame.rows) if is_drawn else None,
                frame.probes,
            )

    def check_end(self) -> None:
        if not self._is_last or self._block or self._file.read(1):
            raise SnapshotRefused("damaged")

    def _array(self, kind: str, *shape: int) -> NDArray[Any]:
        self._check_fits(int(np.prod(shape)) * np.dtype(kind).itemsize)
        array = np.empty(shape, dtype=kind)
        if array.size:
            self._fill(array.data.cast("B"))
        return array

    def _bytes(self, count: int) -> bytes:
        self._check_fits(count)
        taken = bytearray(count)
        self._fill(memoryview(taken))
        return bytes(taken)

    def _check_fits(self, count: int) -> None:
        if not 0 <= count <= self._size:
            raise SnapshotRefused("damaged")

    def _fill(self, target: memoryview) -> None:
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


def _number(value: int) -> bytes:
    return value.to_bytes(_NUMBER, "little")


def _position(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(8, "little") + bytes([is_last])


def _mac(key: bytes, head: bytes, position: bytes, sealed: bytes) -> bytes:
    made = hmac.new(key, head + position, "sha256")
    made.update(sealed)
    return made.digest()


def _sync(folder: Path) -> None:
    """So that the new name outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
