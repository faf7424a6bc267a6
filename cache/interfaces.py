"""Where the cache meets the outside world: embedders, vector indexes and the entry store.

`deadline` is a moment on `time.monotonic()`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

from .model import Entry, Partition, Question, Ticket, Value, Vector

Argument = bytes | str | int | float


class Store(Protocol):
    """The part of the composer's batching store client that the cache uses.

    The first two methods put the command into this loop tick's batch at once, when called, and return a future.
    They raise through the future: `OSError` (its subclasses ConnectionError and TimeoutError) when the
    store is down or late, `redis.ResponseError` when it refuses the command.
    """

    def execute(self, *command: Argument, deadline: float | None = None) -> asyncio.Future[Any]: ...

    def script(
        self,
        source: str,
        *,
        keys: Sequence[Argument],
        args: Sequence[Argument],
        deadline: float | None = None,
    ) -> Awaitable[Any]:
        """Run a Lua script (EVALSHA, loaded when the server does not know it)."""
        ...

    def wait_replicas(self, count: int, timeout_ms: int, *, like_key: Argument) -> Awaitable[int]:
        """How many replicas have what was just written to the server of this key; it waits for `count` of them."""
        ...


class ShardedStore(Store, Protocol):
    """A store that may be a cluster: a command without a key goes to the server that holds `like_key`."""

    def execute(
        self, *command: Argument, deadline: float | None = None, like_key: Argument | None = None
    ) -> asyncio.Future[Any]: ...


class Embedder(Protocol):
    """Text to unit vector. Blocking: the caller keeps it off the event loop.

    `fingerprint` names everything that can move a vector: source weights, build recipe, precision, runtime,
    CPU class. Vectors of two fingerprints are never compared.
    """

    @property
    def fingerprint(self) -> str: ...

    @property
    def dimension(self) -> int: ...

    def embed(self, text: str) -> Vector:
        """Raises `UnfitText` ("too-long", "unknown-tokens") where it cannot read the text faithfully."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class Batching(Embedder, Protocol):
    """An embedder for which a call costs much, and many texts in one little more."""

    @property
    def most_at_once(self) -> int: ...

    def embed_many(self, texts: Sequence[str]) -> list[Vector | Exception]:
        """For each text, in order, what `embed` returns or raises."""
        ...


class VectorIndex(Protocol):
    """The nearest stored vectors by cosine. Ids are the entries' stable 63-bit numbers. Not thread-safe."""

    def add(self, entry_id: int, vector: Vector) -> None:
        """Add or replace."""
        ...

    def remove(self, entry_id: int) -> None:
        """Forget; unknown ids are fine."""
        ...

    def search(self, vector: Vector, k: int) -> list[tuple[int, float]]:
        """At most k (entry_id, cosine), best first."""
        ...

    def __len__(self) -> int: ...


class Exchange(Value, frozen=True):
    """Two questions with an answer each, one fresh and one stored: is the stored answer right for the new question?"""

    _unsaid = frozenset({"question", "fresh_answer", "stored_question", "stored_answer"})

    question: str
    fresh_answer: str
    stored_question: str
    stored_answer: str


class Judge(Protocol):
    """Says whether a stored answer was right, off the path. `name` stands wherever its findings are shown."""

    @property
    def name(self) -> str: ...

    async def agrees(self, exchange: Exchange) -> bool | None:
        """None: it cannot tell (down, busy, too long). That is no finding, and counts for nothing."""
        ...


class Found(Value, frozen=True):
    """What one exact look-up read: the entry if there is a valid one, and the namespace's epoch. `alike_id`: of the
    entry last stored under the same canonical form, which may be gone."""

    entry: Entry | None
    epoch: bytes | None
    alike_id: int | None = None


class Finding(Protocol):
    """A look-up under way. Await it, or cancel it, or leave it: none of these does harm."""

    def __await__(self) -> Generator[Any, None, Found]: ...

    def cancel(self) -> object: ...


Outcome = Literal["stored", "invalidated", "superseded", "blocked", "quota"]


class EntryStore(Protocol):
    """Entries for a while. All raise `StoreUnavailable` if the store does not answer by the deadline."""

    def find(
        self, question: Question, entry_id: int, *, deadline: float, canonical_id: int | None = None
    ) -> Finding:
        """The command leaves when this is called, not when the result is awaited.

        An entry of an older epoch, past its time, of an unknown format, of another partition or of another text
        (two texts with one id, and not one text typed in two ways) is absent.
        """
        ...

    async def fetch(
        self, partition: Partition, entry_ids: Sequence[int], *, deadline: float
    ) -> list[Entry | None]:
        """The entries by id, in order, in one round trip; absent as in `find`, whatever their text."""
        ...

    async def put(self, ticket: Ticket, entry: Entry, *, deadline: float) -> Outcome:
        """Store the entry and announce it. "invalidated": since the ticket's look-up the namespace was flushed, or
        entries of its owner were removed by what they are. "blocked": this answer, for this question. "quota": it
        does not fit into what its owner may keep, though what expires first was let go."""
        ...

    async def block(self, namespace: str, entry_id: int, answer_id: int, *, deadline: float) -> None:
        """Remove the entry, and store this answer to its question no more: for an hour, which is longer than any
        write that may be under way. What holds for good is `evidence`'s to remember."""
        ...

    async def remove(self, namespace: str, entry_ids: Sequence[int], *, deadline: float) -> int:
        """How many of them there were; a hundred or so at once."""
        ...

    async def begin_era(self, owner: str | None, *, deadline: float) -> None:
        """Make every write of the owner (None: of all) that began before come to nothing: what is removed next does
        not come back. Others may lose such a write, too."""
        ...

    async def flush(self, namespace: str, *, deadline: float) -> None:
        """Make every entry of the namespace invisible, and every write that began before come to nothing."""
        ...
