"""Decides which server of a cluster serves which slots, by what any one of its servers says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from redis.exceptions import RedisError

from .address import Endpoint, Login, pack
from .dial import Patience, enter
from .slots import SLOTS

_ASK_TIMEOUT_S = 0.5


@dataclass(frozen=True, slots=True)
class Layout:
    """`masters` has one place for each slot. `trouble` says why the cluster as a whole does not serve."""

    masters: tuple[Endpoint | None, ...]
    replicas: frozenset[Endpoint]
    trouble: str | None


async def read_layout(candidates: Iterable[Endpoint], login: Login) -> Layout:
    """What the first of the candidates that answers says. Raises ConnectionError if none does."""
    complaints = []
    for endpoint in candidates:
        try:
            async with asyncio.timeout(_ASK_TIMEOUT_S):
                return await _ask(endpoint, login)
        except (OSError, RedisError) as error:
            complaints.append(f"{endpoint}: {type(error).__name__}: {error}")
    raise ConnectionError(f"no server tells the cluster's layout ({'; '.join(complaints)})")


async def _ask(endpoint: Endpoint, login: Login) -> Layout:
    patience = Patience(_ASK_TIMEOUT_S, silence_s=2 * _ASK_TIMEOUT_S, max_pending=100)
    # A connection of its own, as it is most often asked when the others are in trouble; replicas may tell as well.
    connection, _ = await enter(endpoint, login, patience=patience, on_trouble=lambda _: None)
    try:
        now = time.monotonic()
        ranges, information = [
            connection.send(pack(command), deadline=now + _ASK_TIMEOUT_S, now=now)
            for command in (("CLUSTER", "SLOTS"), ("CLUSTER", "INFO"))
        ]
        return layout_of(await ranges, await information, told_by=endpoint)
    finally:
        connection.abort("The layout is read.")


def layout_of(ranges: list[Any], information: bytes, *, told_by: Endpoint) -> Layout:
    """From the replies to CLUSTER SLOTS and CLUSTER INFO."""
    masters: list[Endpoint | None] = [None] * SLOTS
    replicas: set[Endpoint] = set()
    for first, last, *servers in ranges:
        # A server that does not know how it is reached leaves its host out: then it is the one that was asked.
        master, *others = [
            Endpoint(told_by.host if host in (None, b"", b"?") else host.decode(), port)
            for host, port, *_ in servers
        ]
        masters[first : last + 1] = [master] * (last + 1 - first)
        replicas.update(others)
    trouble = None
    if None in masters:
        trouble = f"{masters.count(None)} slots of the cluster have no server"
    if b"cluster_state:ok" not in information:
        trouble = "the cluster says that it does not serve (cluster_state)"
    return Layout(tuple(masters), frozenset(replicas), trouble)
