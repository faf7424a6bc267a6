"""Reads the lists of the directory page by page: which members come next, and the records behind them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from ..interfaces import Argument
from ..model import KeyRecord, Page, R
from .records import LAST_USED, RECORDS, decoded, field_in_list

_CHUNK = 500  # records read at a time

Ask = Callable[..., Awaitable[Any]]


async def read_page(
    ask: Ask,
    kind: type[R],
    name: str,
    *,
    start: str,
    stop: str,
    limit: int,
    where: Callable[[R], bool] | None,
) -> Page[R]:
    """At most `limit` records of the list `name` that `where` lets through.

    `start` and `stop` are as in ZRANGE BYLEX, backwards for keys: the newest are at the end of their lists.
    `ask` sends a command to the store.
    """
    found: list[R] = []
    last = ""
    while True:
        members = await ask("ZRANGE", name, start, stop, "BYLEX", *_order(kind), "LIMIT", 0, _CHUNK)
        names = [member.decode() for member in members]
        for member, record in zip(names, await _records(ask, kind, names), strict=True):
            if record is None or (where is not None and not where(record)):
                continue
            if len(found) == limit:
                return Page(tuple(found), last)
            found.append(record)
            last = member
        if len(names) < _CHUNK:
            return Page(tuple(found), None)
        start = f"({names[-1]}"


def _order(kind: type[Any]) -> tuple[str, ...]:
    return ("REV",) if kind is KeyRecord else ()


async def _records(ask: Ask, kind: type[R], members: Sequence[str]) -> Sequence[R | None]:
    """None where a record was deleted since its list was read."""
    if not members:
        return ()
    fields: list[Argument] = [field_in_list(kind, member) for member in members]
    # Both leave together; what is not a key was never used, and its answer is a row of nothing.
    stored, used = await asyncio.gather(ask("HMGET", RECORDS, *fields), ask("HMGET", LAST_USED, *fields))
    return [
        None if kept is None else decoded(kind, kept, last_used)
        for kept, last_used in zip(stored, used, strict=True)
    ]
