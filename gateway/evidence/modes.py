"""Owns the modes that admins switched namespaces to: one durable hash, read at a start and when a switch is told."""

from __future__ import annotations

import time
from collections.abc import Awaitable
from typing import Any, Protocol, get_args

from ..controls import Mode
from .policy import Name

_KEY = "eg:{k}:cache-modes"
_PATIENCE_S = 2.0


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


async def read_modes(store: Store) -> dict[Name, Mode]:
    """Raises OSError. A mode that this version does not know is passed over."""
    fields = await store.execute("HGETALL", _KEY, deadline=time.monotonic() + _PATIENCE_S)
    modes: dict[Name, Mode] = {}
    for name, mode in zip(fields[::2], fields[1::2], strict=True):
        tenant, _, namespace = name.decode().partition("/")
        known: Mode | None = next((known for known in get_args(Mode) if known == mode.decode()), None)
        if known is not None:
            modes[tenant, namespace] = known
    return modes


async def write_mode(store: Store, tenant: str, namespace: str, mode: Mode | None) -> None:
    """None: as configured. Raises OSError if the store does not take it."""
    deadline = time.monotonic() + _PATIENCE_S
    if mode is None:
        await store.execute("HDEL", _KEY, f"{tenant}/{namespace}", deadline=deadline)
    else:
        await store.execute("HSET", _KEY, f"{tenant}/{namespace}", mode, deadline=deadline)
