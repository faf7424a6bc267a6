"""Fakes for those who test against the cache: no model, no index library, no store."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import time
from collections.abc import Callable, Sequence

import numpy as np

from .embed.readable import check_length, check_pieces
from .errors import StoreUnavailable
from .identity import answer_id, is_for
from .interfaces import Found, Outcome
from .model import Entry, Partition, Question, Ticket, Vector
from .vectors import to_unit

_WORD = re.compile(r"\w+")


class HashEmbedder:
    """A text is the sum of its words' random directions: the more words two texts share, the nearer they are.

    Reads at most `window` words; words of letters beyond Latin are unknown to it.
    """

    def __init__(self, *, dimension: int = 64, window: int = 256) -> None:
        self.fingerprint = f"hash/{dimension}"
        self.dimension = dimension
        self.window = window
        self.is_closed = False

    def embed(self, text: str) -> Vector:
        check_length(text, window=self.window)
        words = _WORD.findall(text.lower())
        unknown = sum(any(ord(letter) > 0x24F for letter in word) for word in words)
        check_pieces(pieces=len(words), specials=0, unknown=unknown, window=self.window)
        total = np.sum([self._direction(word) for word in words], axis=0)
        return to_unit(total, dimension=self.dimension)

    def close(self) -> None:
        self.is_closed = True

    def _direction(self, word: str) -> Vector:
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
        return np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)


class DictIndex:
    """`VectorIndex` that compares with every vector in a dict."""

    def __init__(self, dimension: int) -> None:
        self._vectors: dict[int, Vector] = {}

    def __len__(self) -> int:
        return len(self._vectors)

    def add(self, entry_id: int, vector: Vector) -> None:
        self._vectors[entry_id] = vector

    def remove(self, entry_id: int) -> None:
        self._vectors.pop(entry_id, None)

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        cosines = [(entry_id, float(other @ vector)) for entry_id, other in self._vectors.items()]
        return sorted(cosines, key=lambda found: -found[1])[:k]


class MemoryEntries:
    """`EntryStore` in a dict. While `is_down` everything raises `StoreUnavailable`."""

    def __init__(self, *, secret: bytes = b"", wall: Callable[[], float] = time.time) -> None:
        self.is_down = False
        self._secret = secret
        self._wall = wall
        self._era = os.urandom(8)
        self._epochs: dict[str, bytes] = {}
        self._kept: dict[int, tuple[Partition, bytes, Entry]] = {}
        self._blocked: set[tuple[int, int]] = set()
        self._alike: dict[int, int] = {}

    def find(
        self, question: Question, entry_id: int, *, deadline: float, canonical_id: int | None = None
    ) -> asyncio.Future[Found]:
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        if self.is_down:
            future.set_exception(StoreUnavailable("down"))
            future.exception()  # left unawaited it must not complain
            return future
        entry = self._valid(question.partition, entry_id)
        if entry is not None and not is_for(entry, question.text):
            entry = None
        alike = None if canonical_id is None else self._alike.get(canonical_id)
        future.set_result(Found(entry, self._epoch(question.partition.namespace) + self._era, alike))
        return future

    async def fetch(
        self, partition: Partition, entry_ids: Sequence[int], *, deadline: float
    ) -> list[Entry | None]:
        self._check()
        return [self._valid(partition, entry_id) for entry_id in entry_ids]

    async def put(self, ticket: Ticket, entry: Entry, *, deadline: float) -> Outcome:
        self._check()
        partition = ticket.question.partition
        epoch = self._epochs.get(partition.namespace)
        if epoch is None or ticket.epoch != epoch + self._era or entry.expires_at_s <= self._wall():
            return "invalidated"
        if (entry.entry_id, answer_id(self._secret, entry.answer.text)) in self._blocked:
            return "blocked"
        self._kept[entry.entry_id] = (partition, epoch, entry)
        if ticket.canonical_id is not None:
            self._alike[ticket.canonical_id] = entry.entry_id
        return "stored"

    async def remove(self, namespace: str, entry_ids: Sequence[int], *, deadline: float) -> int:
        self._check()
        return sum(self._kept.pop(entry_id, None) is not None for entry_id in entry_ids)

    async def begin_era(self, owner: str | None, *, deadline: float) -> None:
        self._check()
        self._era = os.urandom(8)

    async def block(self, namespace: str, entry_id: int, answer_id: int, *, deadline: float) -> None:
        self._check()
        self._kept.pop(entry_id, None)
        self._blocked.add((entry_id, answer_id))

    async def flush(self, namespace: str, *, deadline: float) -> None:
        self._check()
        self._epochs[namespace] = os.urandom(8)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("down")

    def _epoch(self, namespace: str) -> bytes:
        return self._epochs.setdefault(namespace, os.urandom(8))

    def _valid(self, partition: Partition, entry_id: int) -> Entry | None:
        kept = self._kept.get(entry_id)
        if kept is None:
            return None
        owner, epoch, entry = kept
        is_valid = owner.digest == partition.digest and epoch == self._epoch(partition.namespace)
        return entry if is_valid and entry.expires_at_s > self._wall() else None
