"""Where backends meet the outside world: sending one request to one model server, and keeping what admins changed.

Choosing, counting, retrying and reading events are the pool's; a `Backend` only carries bytes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from .model import Member, Outgoing
from .overlay import Overlay

Edit = Callable[[Overlay], Overlay]
Argument = bytes | str | int | float


class Reply(Protocol):
    """The head of an answer, its body still to come. Whoever got it closes it."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]:
        """Look-up ignores case."""
        ...

    async def read(self) -> bytes:
        """What has arrived since the last call, waiting for something; b"" at the end of the body.

        Raises `UpstreamBroken` when the body is cut short, or when `close` is called meanwhile.
        """
        ...

    def close(self) -> None:
        """Drop what is left of the body, and the connection with it. Does nothing after the end."""
        ...


class Backend(Protocol):
    """The way to model servers."""

    async def send(
        self, member: Member, request: Outgoing, *, connect_s: float, first_byte_s: float
    ) -> Reply:
        """Send, and wait for the head of the answer.

        Times are seconds from now. Raises `UpstreamTimeout` or `UpstreamBroken`. Cancelling closes the connection.
        Redirects are answers, bodies are as they were sent, no proxy is used.
        """
        ...

    async def aclose(self) -> None:
        """Close idle connections; replies must have been closed before."""
        ...


class Store(Protocol):
    """The part of the composer's batching store client that backends use.

    Both methods put the command into this loop tick's batch at once, when called, and return a future. They raise
    through the future: `OSError` (its subclasses ConnectionError and TimeoutError) when the store is down or late.
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


class PoolState(Protocol):
    """What admins changed of the pools, by public model name. Raises `StateError`."""

    async def read(self) -> Mapping[str, Overlay]:
        """Of all pools that differ from their configuration."""
        ...

    async def change(self, model: str, edit: Edit) -> Overlay:
        """Apply `edit` to what is there now, and keep the result; it may be called again if others changed it
        meanwhile. An edit that returns `Overlay()` resets the pool to its configuration."""
        ...
