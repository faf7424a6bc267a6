"""Owns how keys are kept in the durable store: one hash a key, and an index by time of creation."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
from redis.exceptions import RedisError

from ..errors import KeysUnavailable, UnreadableRecord
from ..interfaces import Store
from ..limits.model import Limits
from ..model import KeyRecord, Lineage, Service, Tenant

_FORMAT = 1
_INDEX = "eg:{k}:keys"
_LIST_CHUNK = 500

# The record and the moment of revocation are fields of their own, so that revoking rewrites nothing, and so
# that a late write of the record never brings a revoked key back.
_PUT = """
redis.call('HSET', KEYS[1], 'record', ARGV[2])
if ARGV[4] ~= '' then redis.call('HSETNX', KEYS[1], 'revoked_at', ARGV[4]) end
redis.call('ZADD', KEYS[2], ARGV[3], ARGV[1])
"""
_REVOKE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('HSETNX', KEYS[1], 'revoked_at', ARGV[1])
return redis.call('HMGET', KEYS[1], 'record', 'revoked_at')
"""


class _Record(msgspec.Struct, array_like=True, frozen=True):
    """The stored form: a list, the format first."""

    format: int
    key_id: str
    secret_sha256: bytes
    tenant: str
    service: str
    name: str
    rate_per_s: float
    burst: int
    created_at_s: float


class StoreKeys:
    """The `KeyStore` over a Redis-protocol store. `admin_timeout_s` bounds the calls that have no deadline of
    their own; `now` is the clock of deadlines."""

    def __init__(
        self, store: Store, *, now: Callable[[], float] = time.monotonic, admin_timeout_s: float = 2.0
    ) -> None:
        self._store = store
        self._now = now
        self._admin_timeout_s = admin_timeout_s

    async def get(self, key_id: str, *, deadline: float | None = None) -> KeyRecord | None:
        reply = await _answer(self._store.execute(*_read(key_id), deadline=deadline))
        return _record(reply)

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None:
        return _lineage(await self.get(key_id, deadline=deadline))

    async def put(self, record: KeyRecord) -> None:
        revoked_at_s = record.revoked_at_s
        await _answer(
            self._store.script(
                _PUT,
                keys=[_name(record.key_id), _INDEX],
                args=[
                    record.key_id,
                    _encoded(record),
                    record.created_at_s,
                    "" if revoked_at_s is None else revoked_at_s,
                ],
                deadline=self._admin_deadline(),
            )
        )

    async def list(self) -> Sequence[KeyRecord]:
        deadline = self._admin_deadline()
        ids = await _answer(self._store.execute("ZRANGE", _INDEX, 0, -1, "REV", deadline=deadline))
        records: list[KeyRecord] = []
        for start in range(0, len(ids), _LIST_CHUNK):
            chunk = ids[start : start + _LIST_CHUNK]
            replies = [self._store.execute(*_read(key_id.decode()), deadline=deadline) for key_id in chunk]
            found = [_record(await _answer(reply)) for reply in replies]
            records += [record for record in found if record is not None]
        return records

    async def revoke(self, key_id: str, *, at_s: float) -> KeyRecord | None:
        reply = await _answer(
            self._store.script(_REVOKE, keys=[_name(key_id)], args=[at_s], deadline=self._admin_deadline())
        )
        return None if reply is None else _record(reply)

    def _admin_deadline(self) -> float:
        return self._now() + self._admin_timeout_s


def _name(key_id: str) -> str:
    return f"eg:{{k}}:key:{key_id}"


def _read(key_id: str) -> tuple[str, ...]:
    return ("HMGET", _name(key_id), "record", "revoked_at")


def _lineage(record: KeyRecord | None) -> Lineage | None:
    if record is None:
        return None
    return Lineage(record, Service(record.tenant, record.service, 0.0), Tenant(record.tenant, 0.0))


async def _answer(reply: Awaitable[Any]) -> Any:
    try:
        return await reply
    except (OSError, RedisError) as error:
        raise KeysUnavailable(f"The store of keys cannot answer ({type(error).__name__}).") from error


def _encoded(record: KeyRecord) -> bytes:
    return msgspec.msgpack.encode(
        _Record(
            format=_FORMAT,
            key_id=record.key_id,
            secret_sha256=record.secret_sha256,
            tenant=record.tenant,
            service=record.service,
            name=record.name,
            rate_per_s=record.limit.rate_per_s,
            burst=record.limit.burst,
            created_at_s=record.created_at_s,
        )
    )


def _record(fields: Sequence[bytes | None]) -> KeyRecord | None:
    stored, revoked_at = fields
    if stored is None:
        return None
    try:
        kept = msgspec.msgpack.decode(stored, type=_Record)
    except msgspec.MsgspecError as error:
        raise UnreadableRecord("A key record in the store cannot be read.") from error
    if kept.format != _FORMAT:
        raise UnreadableRecord(
            f"A key record has format {kept.format}, this release reads {_FORMAT}. Use a newer release."
        )
    return KeyRecord(
        key_id=kept.key_id,
        secret_sha256=kept.secret_sha256,
        tenant=kept.tenant,
        service=kept.service,
        name=kept.name,
        limits=Limits(requests_per_s=kept.rate_per_s, burst=kept.burst),
        created_at_s=kept.created_at_s,
        disabled_at_s=None if revoked_at is None else float(revoked_at),
    )
