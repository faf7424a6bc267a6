"""Overlays in the durable store: one hash, a field for each pool, changed by compare and set."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any

import msgspec
from redis.exceptions import RedisError

from ..errors import StateConflict, StateUnavailable, UnreadableState
from ..interfaces import Edit, Store
from ..overlay import Overlay

_KEY = "eg:{k}:pools"
_FORMAT = 1
_TRIES = 10

# Set the field if it still holds what was read; an empty new value removes it.
_SWAP = """
local now = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if now ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('HDEL', KEYS[1], ARGV[1])
else redis.call('HSET', KEYS[1], ARGV[1], ARGV[3]) end
return 1
"""


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """The stored form: a list, the format first."""

    format: int
    overlay: Overlay


_decoder = msgspec.json.Decoder(_Record)


class StorePoolState:
    """The `PoolState` over a Redis-protocol store. Each call takes `timeout_s` at most for each of its round trips."""

    def __init__(
        self, store: Store, *, timeout_s: float = 2.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._store = store
        self._timeout_s = timeout_s
        self._clock = clock

    async def read(self) -> Mapping[str, Overlay]:
        flat = await self._answer(self._store.execute("HGETALL", _KEY, deadline=self._deadline()))
        fields = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {model.decode(): _decoded(record) for model, record in fields}

    async def change(self, model: str, edit: Edit) -> Overlay:
        for _ in range(_TRIES):
            found = await self._answer(self._store.execute("HGET", _KEY, model, deadline=self._deadline()))
            before = found or b""
            changed = edit(_decoded(before) if before else Overlay())
            swapping = self._store.script(
                _SWAP, keys=[_KEY], args=[model, before, _encoded(changed)], deadline=self._deadline()
            )
            if await self._answer(swapping):
                return changed
        raise StateConflict(f"the pool {model!r} was being changed by others all the time; try again")

    def _deadline(self) -> float:
        return self._clock() + self._timeout_s

    @staticmethod
    async def _answer(asked: Awaitable[Any]) -> Any:
        try:
            return await asked
        except OSError as error:
            raise StateUnavailable("the durable store did not answer in time") from error
        except RedisError as error:
            raise StateUnavailable("the durable store refused the command") from error


def _encoded(overlay: Overlay) -> bytes:
    if overlay == Overlay():
        return b""
    nameless = tuple(replace(member, api_key=None) for member in overlay.members)
    return msgspec.json.encode(_Record(_FORMAT, replace(overlay, members=nameless)))


def _decoded(record: bytes) -> Overlay:
    try:
        read = _decoder.decode(record)
    except msgspec.DecodeError as error:
        raise UnreadableState("a pool's changes in the store cannot be read; reset them") from error
    if read.format != _FORMAT:
        raise UnreadableState(
            f"a pool's changes in the store are of format {read.format}, expected {_FORMAT}: "
            "they are another release's"
        )
    return read.overlay
