"""Where the cache meets the outside world: embedders, vector indexes and the entry store.

`deadline` is a moment on `time.monotonic()`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .model import Entry, Ticket, Vector

Argument = bytes | str | int | float


class Store(Protocol):
    """The part of the composer's batching store client that the cache uses.

    Both methods put the command into this loop tick's batch at once, when called, and return a future.
    They raise through the future: `OSError` (its subclasses ConnectionError and TimeoutError) when the
    store is down or late, `redis.ResponseError` when it refuses the command.
    """

    def execute(self, *command: Argument, deadline: float | None = None) -> Awaitable[Any]: ...

    def script(
        self, source: str, *, keys: Sequence[Argument], args: Sequence[Argument], deadline: float | None = None
    ) -> Awaitable[Any]:
        """Run a Lua script (EVALSHA, loaded when the server does not know it)."""
        ...


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
        """Raises `UnfitText` ("too-long", "unknown-tokens") where the model cannot read the text faithfully."""
        ...

    def close(self) -> None: ...


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


@dataclass(frozen=True, slots=True)
class Found:
    """What one exact look-up read: the entry if there is a valid one, and the namespace's epoch."""

    entry: Entry | None
    epoch: bytes | None


class EntryStore(Protocol):
    """Entries for a while. Every method raises `StoreUnavailable` if the store cannot answer by its deadline."""

    def find(self, namespace: str, entry_id: int, *, deadline: float) -> Awaitable[Found]:
        """The command leaves when this is called, not when the result is awaited.

        An entry of an older epoch, past its time, of an unknown format or of another namespace is absent.
        """
        ...

    async def fetch(self, namespace: str, entry_ids: Sequence[int], *, deadline: float) -> list[Entry | None]:
        """The entries by id, in order, in one round trip."""
        ...

    async def put(self, ticket: Ticket, entry: Entry, *, deadline: float) -> bool:
        """Store the entry and announce it, unless the namespace's epoch is not the ticket's any more."""
        ...

    async def remove(self, namespace: str, entry_id: int, *, deadline: float) -> bool: ...

    async def flush(self, namespace: str, *, deadline: float) -> None:
        """Make every entry of the namespace invisible, and every write that began before come to nothing. O(1)."""
        ...
