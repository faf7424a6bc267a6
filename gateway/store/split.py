"""Owns the commands that a cluster takes only in parts: MGET and XREAD over keys of several slots."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from .address import Command
from .slots import Part, block_s_of

# A blocking XREAD blocks its connection, so one for each slot would wait for the others. Instead the slots are
# asked again and again, in one write for each server.
_ASK_EVERY_S = 0.1
# How long one round waits for a server that does not answer: what the others have should not wait for it.
_ROUND_S = 1.0


class Send(Protocol):
    def __call__(self, command: Command, *, deadline: float, now: float) -> asyncio.Future[Any]: ...


async def read_keys(
    command: Command, parts: Mapping[int, Part], *, send: Send, deadline: float, now: float
) -> list[Any]:
    """MGET: the values in the order of the keys. It fails if any part does."""
    values: list[Any] = [None] * (len(command) - 1)
    replies = await asyncio.gather(
        *(send(part.command, deadline=deadline, now=now) for part in parts.values())
    )
    for part, reply in zip(parts.values(), replies, strict=True):
        for position, value in zip(part.positions, reply, strict=True):
            values[position] = value
    return values


async def read_streams(
    command: Command, parts: Mapping[int, Part], *, send: Send, deadline: float, now: float
) -> list[Any] | None:
    """XREAD: what there is to read on the servers that are up. It fails if none is."""
    until = now + block_s_of(command)
    while True:
        found = await _read_once(parts, send=send, deadline=min(deadline, now + _ROUND_S), now=now)
        now = time.monotonic()
        if found or now >= until:
            return found or None
        if now >= deadline:
            raise TimeoutError("Nothing came on the streams by the deadline.")
        await asyncio.sleep(min(_ASK_EVERY_S, until - now))
        now = time.monotonic()


async def _read_once(parts: Mapping[int, Part], *, send: Send, deadline: float, now: float) -> list[Any]:
    replies = await asyncio.gather(
        *(send(part.command, deadline=deadline, now=now) for part in parts.values()), return_exceptions=True
    )
    failures = [reply for reply in replies if isinstance(reply, BaseException)]
    for failure in failures:
        if len(failures) == len(replies) or not isinstance(failure, OSError):
            raise failure
    return [stream for reply in replies if reply and not isinstance(reply, BaseException) for stream in reply]
