"""Where auth meets the outside world: the store of keys and the store of limits.

Times are `time.monotonic()` seconds. `deadline` is a moment on that clock; an implementation answers or
raises by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol

from .model import Decision, KeyRecord, RequestLimit

Argument = bytes | str | int | float


class Store(Protocol):
    """The part of the composer's batching store client that auth uses.

    Both methods put the command into this loop tick's batch at once, when called, and return a future.
    They raise through the future: `OSError` (its subclasses ConnectionError and TimeoutError) when the
    store is down or late, `redis.ResponseError` when it refuses the command.
    """

    def execute(self, *command: Argument, deadline: float | None = None) -> Awaitable[Any]: ...

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


class KeyStore(Protocol):
    """Keys for good. Every method raises `KeysUnavailable` if the store cannot answer by its deadline."""

    async def get(self, key_id: str, *, deadline: float | None = None) -> KeyRecord | None: ...

    async def put(self, record: KeyRecord) -> None:
        """Add or replace. A key that was revoked stays revoked, whatever the record says."""
        ...

    async def list(self) -> Sequence[KeyRecord]:
        """All keys, newest first, revoked ones too."""
        ...

    async def revoke(self, key_id: str, *, at_s: float) -> KeyRecord | None:
        """Mark the key revoked (wall-clock seconds); None if there is no such key. Idempotent."""
        ...


class LimitStore(Protocol):
    """Buckets shared by all workers."""

    def take(
        self, bucket: str, limit: RequestLimit, *, cost: int = 1, deadline: float | None = None
    ) -> Awaitable[Decision]:
        """Take `cost` from the bucket, all or nothing, on the store's own clock.

        The command leaves when this is called, not when the result is awaited. Raises OSError when the
        store cannot answer by the deadline.
        """
        ...
