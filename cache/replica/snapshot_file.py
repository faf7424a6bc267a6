"""Owns the form of a snapshot: the spaces of a process, and where in the streams it was, in one file.

What is read is numbers and names; there is nothing in it that could be carried out. That nothing is read which was not
written by this deployment is replica/sealed_blocks.py's.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..entries.sealing import Unsealable
from ..index import FrozenSpace
from .place import Place
from .sealed_blocks import BlockReader, BlockWriter, Owner, SnapshotRefused

_KINDS = {"<f4", "<f2"}
_LENGTH = 4  # bytes
T = TypeVar("T")


class Contents(msgspec.Struct, array_like=True, frozen=True):
    """What a snapshot holds beside the spaces. `shards` tells which shard a namespace's tag belongs to."""

    places: list[Place]
    shards: dict[bytes, int]
    written_at_s: float


class _Frame(msgspec.Struct, array_like=True, frozen=True):
    """What stands before a space's arrays."""

    name: bytes
    rows: int
    dimension: int
    kind: str
    clusters: int
    probes: int


_contents = msgspec.msgpack.Decoder(Contents)
_frames = msgspec.msgpack.Decoder(_Frame | None)


@dataclass(frozen=True, slots=True)
class Snapshot:
    contents: Contents
    spaces: list[FrozenSpace]


class SnapshotWriter:
    """Made by `writing`."""

    def __init__(self, blocks: BlockWriter) -> None:
        self._blocks = blocks

    def add(self, space: FrozenSpace) -> None:
        rows, dimension = space.vectors.shape
        kind = space.vectors.dtype.newbyteorder("<").str
        clusters = 0 if space.centroids is None else len(space.centroids)
        self.frame(_Frame(space.name, rows, dimension, kind, clusters, space.probes))
        for array in (space.ids, space.expires_at_s, space.vectors, space.centroids, space.lists):
            if array is not None and array.size:
                little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
                self._blocks.write(little.data.cast("B"))

    def frame(self, value: Contents | _Frame | None) -> None:
        encoded = msgspec.msgpack.encode(value)
        self._blocks.write(memoryview(len(encoded).to_bytes(_LENGTH, "little") + encoded))


@contextmanager
def writing(
    path: Path, owner: Owner, contents: Contents, *, pause: Callable[[], None] = lambda: None
) -> Iterator[SnapshotWriter]:
    """The file appears whole when the block ends, or not at all; nobody else may read it. Blocking.

    `pause` is called before each megabyte, and may raise to end it.
    """
    draft = path.with_suffix(".draft")
    draft.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            blocks = BlockWriter(file, owner, pause)
            writer = SnapshotWriter(blocks)
            writer.frame(contents)
            yield writer
            writer.frame(None)
            blocks.end()
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
            blocks = BlockReader(file, owner)
            contents = _frame(blocks, _contents)
            spaces = []
            while (frame := _frame(blocks, _frames)) is not None:
                spaces.append(_space(blocks, frame))
            blocks.check_end()
            return Snapshot(contents, spaces)
    except FileNotFoundError:
        raise SnapshotRefused("absent") from None
    except OSError as error:
        raise SnapshotRefused("unreadable") from error
    except (msgspec.MsgspecError, RecursionError, Unsealable, ValueError) as error:
        raise SnapshotRefused("damaged") from error


def _frame(blocks: BlockReader, decoder: msgspec.msgpack.Decoder[T]) -> T:
    length = int.from_bytes(blocks.take(_LENGTH), "little")
    return decoder.decode(blocks.take(length))


def _space(blocks: BlockReader, frame: _Frame) -> FrozenSpace:
    if frame.kind not in _KINDS:
        raise SnapshotRefused("damaged")
    is_drawn = frame.clusters > 0
    return FrozenSpace(
        frame.name,
        _array(blocks, "<i8", frame.rows),
        _array(blocks, "<f8", frame.rows),
        _array(blocks, frame.kind, frame.rows, frame.dimension),
        _array(blocks, "<f4", frame.clusters, frame.dimension) if is_drawn else None,
        _array(blocks, "<i4", frame.rows) if is_drawn else None,
        frame.probes,
    )


def _array(blocks: BlockReader, kind: str, *shape: int) -> NDArray[Any]:
    blocks.check_fits(math.prod(shape) * np.dtype(kind).itemsize)
    array = np.empty(shape, dtype=kind)
    if array.size:
        blocks.fill(array.data.cast("B"))
    return array


def _sync(folder: Path) -> None:
    """So that the new name outlives a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
