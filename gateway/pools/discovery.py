"""Which addresses a name has now: for model servers behind a headless service."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Sequence

import structlog

from .effective import Found

_log = structlog.get_logger("gateway.pools.effective")

_TIMEOUT_S = 2.0

Resolve = Callable[[str], Awaitable[Sequence[str]]]


class Discovery:
    """What was found last. A name that cannot be looked up, or has no address, keeps those it had: a resolver that is
    away must not take every server out at once, and those that are gone are left out for not answering."""

    def __init__(self, resolve: Resolve | None = None) -> None:
        self._resolve = resolve or _addresses
        self._found: dict[str, Sequence[str]] = {}

    @property
    def found(self) -> Found:
        return self._found

    async def look_up(self, names: Iterable[str]) -> None:
        """Each name is HOST:PORT. Never raises."""
        wanted = sorted(names)
        found = await asyncio.gather(*(self._resolve(name) for name in wanted))
        self._found = {
            name: addresses or self._found.get(name, ())
            for name, addresses in zip(wanted, found, strict=True)
        }


async def _addresses(name: str) -> Sequence[str]:
    host, _, port = name.rpartition(":")
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            records = await loop.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except (OSError, TimeoutError) as error:
        _log.warning("a name could not be looked up", name=name, reason=type(error).__name__)
        return ()
    return sorted({str(place[0]) for *_, place in records})
