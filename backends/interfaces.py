"""Where backends meet the outside world: sending one request to one model server.

Choosing, counting, retrying and reading events are the pool's; an implementation only carries bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .model import Member, Outgoing


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
