"""Removes the answers of model versions that no member of any host serves any more: nothing asks for them.

A version is part of what must match exactly, so they are never served again unless it comes back. For a while they are
kept, since it may: a rollout is taken back. Every host says every minute which versions it serves,
in the store of the role `cache`; one of them lets go of what nobody has named for long
enough. Time in which no host ran does not count.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Set
from typing import Any, Protocol

import structlog
from redis.exceptions import RedisError

from cache import CacheError, Inventory, Progress, Selector

_log = structlog.get_logger("gateway.evidence.old_versions")

_SEEN, _TURN, _LOOKED = "eg:versions", "eg:versions:turn", "eg:versions:looked"
_KEPT_S = 32 * 86_400
_EVERY_S = 60.0
_PATIENCE_S = 2.0
_STRETCH_S, _PAUSE_S = 0.05, 0.2  # of removing: it is in no hurry, and requests are

# KEYS: when each version was seen last. ARGV: a version, that moment. Not where it was seen since.
_FORGET = """
if redis.call('HGET', KEYS[1], ARGV[1]) == ARGV[2] then return redis.call('HDEL', KEYS[1], ARGV[1]) end
return 0
"""


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...

    def script(self, source: str, *, keys: list[str], args: list[str], deadline: float) -> Awaitable[Any]: ...


class OldVersions:
    """`serving` names the versions of this host's pools, as `model@revision`. The owner runs `run` and cancels it."""

    def __init__(
        self,
        store: Store,
        inventory: Inventory,
        *,
        serving: Callable[[], Set[str]],
        kept_s: float,
        every_s: float = _EVERY_S,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._inventory = inventory
        self._serving = serving
        self._kept_s = kept_s
        self._every_s = every_s
        self._wall = wall

    async def run(self) -> None:
        while True:
            with contextlib.suppress(OSError, RedisError, CacheError):  # away: it is looked at again
                await self.look()
            await asyncio.sleep(self._every_s)

    async def look(self) -> int:
        """Say what is served, and remove what is old if it is this host's turn; how many entries went. Raises OSError,
        RedisError or CacheError if the store does not answer."""
        now_s, serving = self._wall(), self._serving()
        await self._see(serving, now_s)
        if await self._ask("SET", _TURN, b"1", "NX", "PX", int(self._every_s * 500)) is None:
            return 0
        seen = _pairs(await self._ask("HGETALL", _SEEN))
        looked = await self._ask("SET", _LOOKED, f"{now_s:.3f}", "EX", _KEPT_S, "GET")
        if looked is None or now_s - float(looked) > 3 * self._every_s:
            # Nobody ran meanwhile: it is not known what they would have served.
            await self._see(seen.keys(), now_s)
            return 0
        removed = 0
        for version, at_s in seen.items():
            if version not in serving and now_s - float(at_s) > self._kept_s:
                removed += await self._remove(version)
                deadline = time.monotonic() + _PATIENCE_S
                await self._store.script(_FORGET, keys=[_SEEN], args=[version, at_s], deadline=deadline)
        return removed

    async def _see(self, versions: Iterable[str], now_s: float) -> None:
        fields = [each for version in sorted(versions) for each in (version, f"{now_s:.3f}")]
        if fields:
            await self._ask("HSET", _SEEN, *fields)
            await self._ask("EXPIRE", _SEEN, _KEPT_S)

    async def _remove(self, version: str) -> int:
        removed, place = 0, None
        while True:
            until = time.monotonic() + _STRETCH_S
            progress = Progress(place, lambda until=until: time.monotonic() > until)  # type: ignore[misc]
            selector = Selector(tags={"version": version})
            done = await self._inventory.invalidate(selector, dry_run=False, progress=progress)
            removed, place = removed + done.removed, done.place
            if place is None:
                break
            await asyncio.sleep(_PAUSE_S)
        if removed:
            _log.info(
                "answers of a version that nobody serves any more were removed",
                version=version,
                entries=removed,
            )
        return removed

    async def _ask(self, *command: bytes | str | int | float) -> Any:
        return await self._store.execute(*command, deadline=time.monotonic() + _PATIENCE_S)


def _pairs(reply: dict[bytes, bytes] | list[bytes]) -> dict[str, str]:
    flat = [each for pair in reply.items() for each in pair] if isinstance(reply, dict) else reply
    return {name.decode(): value.decode() for name, value in zip(flat[::2], flat[1::2], strict=True)}
