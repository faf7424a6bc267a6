"""Owns control changes: durable records in one stream, which every host follows and hands to its workers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import structlog
from redis.exceptions import RedisError

from cache import JudgeRates

from ..controls import Mode

_log = structlog.get_logger("gateway.host.control")

_STREAM = "eg:{k}:control"
_FORMAT = b"1"
_KEPT = 10_000  # records; a host that was away longer starts with empty caches anyway
_BLOCK_MS = 2_000
_PAUSE_S = 0.5


class KeyChanged(msgspec.Struct, frozen=True, tag="key-changed"):
    """A key was changed, disabled or deleted: what is remembered of it is void."""

    key_id: str


class TenantChanged(msgspec.Struct, frozen=True, tag="tenant-changed"):
    """A tenant or one of its services was changed: what is remembered of any of its keys is void."""

    tenant: str


class PoolsChanged(msgspec.Struct, frozen=True, tag="pools-changed"):
    """Admins changed something of the pools: hosts read it from the store."""


class CacheModeChanged(msgspec.Struct, frozen=True, tag="cache-mode-changed"):
    """A cache namespace of a tenant was switched to a mode, or (None) back to its configured one."""

    tenant: str
    namespace: str
    mode: Mode | None


class JudgeMeasured(msgspec.Struct, frozen=True, tag="judge-measured"):
    """It is known how often a judge of the cache errs, or (None) not any more."""

    judge: str
    rates: JudgeRates | None


ControlRecord = KeyChanged | TenantChanged | PoolsChanged | CacheModeChanged | JudgeMeasured

_decoder: msgspec.json.Decoder[ControlRecord] = msgspec.json.Decoder(ControlRecord)


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


async def publish(store: Store, record: ControlRecord, *, deadline: float | None = None) -> str:
    """Make the change known to all hosts, for good; its id. Raises OSError if the store does not take it."""
    fields = ("v", _FORMAT, "record", msgspec.json.encode(record))
    change_id: bytes = await store.execute(
        "XADD", _STREAM, "MAXLEN", "~", _KEPT, "*", *fields, deadline=deadline
    )
    return change_id.decode()


async def follow(store: Store, on_change: Callable[[str, ControlRecord], Awaitable[None]]) -> None:
    """Hand over each change made from now on, in order, until cancelled. Outages of the store are waited out.

    `store` must be a connection of its own: its reads block.
    """
    position: bytes | None = None
    while True:
        try:
            if position is None:
                position = await _last_position(store)
            reply = await store.execute(
                "XREAD", "BLOCK", _BLOCK_MS, "STREAMS", _STREAM, position, deadline=math.inf
            )
        except (OSError, RedisError):
            await asyncio.sleep(_PAUSE_S)
            continue
        for change_id, fields in _records(reply):
            position = change_id
            record = _read(fields)
            if record is not None:
                await on_change(change_id.decode(), record)


async def _last_position(store: Store) -> bytes:
    newest = await store.execute("XREVRANGE", _STREAM, "+", "-", "COUNT", 1)
    return bytes(newest[0][0]) if newest else b"0-0"


def _records(reply: Any) -> list[tuple[bytes, list[bytes]]]:
    return [(change_id, fields) for _, records in reply or () for change_id, fields in records]


def _read(fields: list[bytes]) -> ControlRecord | None:
    values = dict(zip(fields[::2], fields[1::2], strict=False))
    try:
        if values.get(b"v") == _FORMAT:
            return _decoder.decode(values.get(b"record", b""))
    except msgspec.DecodeError:
        pass  # told below, like an unknown format: a newer Echogate on another host may have written it
    _log.warning("a control record of an unknown kind was passed over", format=str(values.get(b"v")))
    return None
