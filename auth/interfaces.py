"""Where auth meets the outside world: the store of keys (that of limits is in limits/interfaces.py).

Times are `time.monotonic()` seconds. `deadline` is a moment on that clock; an implementation answers or
raises by then.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from .model import KeyRecord, Lineage, Page, R, Ref, Service, Tenant, Written

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


class DurableStore(Store, Protocol):
    """A store that can say whether a write has reached a replica."""

    def wait_replicas(self, count: int, timeout_ms: int, *, like_key: Argument) -> Awaitable[int]:
        """How many replicas have confirmed what this client wrote to the node that holds `like_key`; it
        returns once `count` have, or after the timeout."""
        ...


class Directory(Protocol):
    """Tenants, services and keys for good.

    The hierarchy is always whole: a key's service and tenant exist. Every method raises `KeysUnavailable` if
    the store cannot answer in time; a change may then have been made nonetheless.
    """

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None:
        """The key with all that bears on it, in one round trip; `last_used_at_s` is left out."""
        ...

    async def get(self, ref: Ref[R]) -> R | None: ...

    async def add(self, record: R) -> Written[R]:
        """Raises `AlreadyThere`. Adding a key or a service adds the tenant and service it names, if need be."""
        ...

    async def change(self, ref: Ref[R], change: Callable[[R], R]) -> Written[R]:
        """Replace the record by what `change` makes of it. Nothing that others write meanwhile gets lost: then
        `change` is called again, on what they wrote. Raises `NoSuchRecord` and what `change` raises."""
        ...

    async def delete(self, ref: Ref[R]) -> Written[R]:
        """Raises `NoSuchRecord`, and `StillInUse` for a tenant with services or a service with keys."""
        ...

    async def tenants(
        self, *, limit: int = 100, after: str | None = None, where: Callable[[Tenant], bool] | None = None
    ) -> Page[Tenant]:
        """By name. At most `limit` of those that `where` lets through."""
        ...

    async def services(
        self,
        *,
        tenant: str | None = None,
        limit: int = 100,
        after: str | None = None,
        where: Callable[[Service], bool] | None = None,
    ) -> Page[Service]:
        """By tenant and name; of one tenant or all."""
        ...

    async def keys(
        self,
        *,
        tenant: str | None = None,
        service: str | None = None,
        limit: int = 100,
        after: str | None = None,
        where: Callable[[KeyRecord], bool] | None = None,
    ) -> Page[KeyRecord]:
        """Newest first; of one tenant, of one of its services (a service needs its tenant named), or all."""
        ...

    async def note_use(self, used_at_s: Mapping[str, float]) -> None:
        """When keys (by id) were last used, in wall-clock seconds."""
        ...
