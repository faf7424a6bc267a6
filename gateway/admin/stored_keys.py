"""Owns the keys of the admin plane in the durable store: who may administer, and in which role.

All of them are one record, changed as a whole or not at all, so that a rule about all of them (an owner remains) holds
whoever changes what at the same time. Of a key only a SHA-256 is kept.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec.structs import replace

Role = Literal["owner", "admin", "operator", "viewer"]

_RECORD = "eg:{k}:admin-keys"
_FORMAT = 1
_MOST_KEYS = 256
_RACES = 20
_REPLICA_MS = 500
_KEY = re.compile(r"ega-([a-z0-9]{12})-([A-Za-z0-9_-]{43})")
_ID_ALPHABET = string.ascii_lowercase + string.digits
# What is compared with where there is no such key, so that it takes the same work as a wrong secret.
_NOBODY: Final = hashlib.sha256(secrets.token_bytes(32)).digest()

_EXCHANGE = """
local present = redis.call('GET', KEYS[1]) or ''
if present ~= ARGV[1] then return {'other', present} end
redis.call('SET', KEYS[1], ARGV[2])
local info = redis.pcall('INFO', 'replication')
local replicas = type(info) == 'string' and tonumber(string.match(info, 'connected_slaves:(%d+)')) or -1
return {'ok', replicas}
"""


class AdminKeyError(Exception):
    """What was asked for cannot be; nothing was changed. The message is for the one who asked."""


class NoSuchAdminKey(AdminKeyError):
    pass


class AdminKey(msgspec.Struct, frozen=True, kw_only=True):
    """Moments are wall-clock seconds. A disabled key can be enabled again."""

    key_id: str
    name: str
    role: Role
    secret_sha256: bytes
    created_at_s: float
    disabled_at_s: float | None = None

    def __repr__(self) -> str:
        return f"<AdminKey {self.key_id} {self.role}>"


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...

    def script(
        self,
        source: str,
        *,
        keys: Sequence[bytes | str | int | float],
        args: Sequence[bytes | str | int | float],
        deadline: float | None = None,
    ) -> Awaitable[Any]: ...

    def wait_replicas(self, count: int, timeout_ms: int, *, like_key: str) -> Awaitable[int]: ...


def mint(name: str, role: Role, *, at_s: float, secret: str | None = None) -> tuple[AdminKey, str]:
    """A new key: the record to keep, and the plaintext `ega-<public id>-<secret>` to show once."""
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(12))
    secret = secret or secrets.token_urlsafe(32)
    record = AdminKey(key_id=key_id, name=name, role=role, secret_sha256=_sha256(secret), created_at_s=at_s)
    return record, f"ega-{key_id}-{secret}"


def of_plaintext(key: str, name: str, role: Role, *, at_s: float) -> AdminKey | None:
    """The record of a key that exists already; None if that is no admin key."""
    match = _KEY.fullmatch(key)
    if match is None:
        return None
    return AdminKey(key_id=match[1], name=name, role=role, secret_sha256=_sha256(match[2]), created_at_s=at_s)


class AdminKeys:
    """Every method raises OSError or RedisError when the store cannot answer within `timeout_s`."""

    def __init__(self, store: Store, *, timeout_s: float = 2.0) -> None:
        self._store = store
        self._timeout_s = timeout_s

    async def authenticate(self, presented: str) -> AdminKey | None:
        """Whose key it is; None if it is nobody's, or disabled. In time that does not tell which, nor how near."""
        match = _KEY.fullmatch(presented)
        key_id, secret = (match[1], match[2]) if match is not None else ("", presented)
        known = next((key for key in await self.all() if key.key_id == key_id), None)
        is_right = hmac.compare_digest(_sha256(secret), known.secret_sha256 if known is not None else _NOBODY)
        return known if is_right and known is not None and known.disabled_at_s is None else None

    async def all(self) -> tuple[AdminKey, ...]:
        return _decoded(await self._read())

    async def add(self, key: AdminKey) -> bool:
        """Whether a replica has it, where there is one."""

        def with_it(keys: tuple[AdminKey, ...]) -> tuple[AdminKey, ...]:
            if len(keys) >= _MOST_KEYS:
                raise AdminKeyError(f"There are {_MOST_KEYS} admin keys already: delete one first.")
            return (*keys, key)

        return await self._exchange(with_it)

    async def add_first(self, key: AdminKey) -> bool:
        """Whether it was added: only where there is none yet."""
        reply = await self._store.script(
            _EXCHANGE, keys=(_RECORD,), args=(b"", _encoded((key,))), deadline=self._deadline()
        )
        return bool(reply[0] == b"ok")

    async def change(
        self, key_id: str, change: Callable[[AdminKey], AdminKey]
    ) -> tuple[AdminKey, AdminKey, bool]:
        """The key before and after, and whether a replica has it. Raises AdminKeyError if no owner were left."""
        pair: list[AdminKey] = []

        def changed(keys: tuple[AdminKey, ...]) -> tuple[AdminKey, ...]:
            before = _named(key_id, keys)
            after = change(before)
            pair[:] = before, after
            return _with_owner(tuple(after if key is before else key for key in keys))

        is_replicated = await self._exchange(changed)
        return pair[0], pair[1], is_replicated

    async def delete(self, key_id: str) -> tuple[AdminKey, bool]:
        """The key as it was, and whether a replica knows it is gone. Raises like `change`."""
        gone: list[AdminKey] = []

        def without(keys: tuple[AdminKey, ...]) -> tuple[AdminKey, ...]:
            gone[:] = [_named(key_id, keys)]
            return _with_owner(tuple(key for key in keys if key is not gone[0]))

        is_replicated = await self._exchange(without)
        return gone[0], is_replicated

    async def _exchange(self, change: Callable[[tuple[AdminKey, ...]], tuple[AdminKey, ...]]) -> bool:
        stored = await self._read()
        for _ in range(_RACES):
            changed = _encoded(change(_decoded(stored)))
            reply = await self._store.script(
                _EXCHANGE, keys=(_RECORD,), args=(stored, changed), deadline=self._deadline()
            )
            if reply[0] == b"ok":
                return await self._is_replicated(reply[1])
            stored = reply[1]
        raise ConnectionError("The admin keys are being changed by others all the time.")

    async def _is_replicated(self, replicas: int) -> bool:
        if replicas == 0:
            return True
        try:
            return await self._store.wait_replicas(1, _REPLICA_MS, like_key=_RECORD) >= 1
        except OSError:  # the change is made; that it is safe is what nobody can say
            return False

    async def _read(self) -> bytes:
        stored: bytes | None = await self._store.execute("GET", _RECORD, deadline=self._deadline())
        return stored or b""

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout_s


def disabled(key: AdminKey, *, at_s: float) -> AdminKey:
    """Once more changes nothing: the first moment stays."""
    return key if key.disabled_at_s is not None else replace(key, disabled_at_s=at_s)


def _named(key_id: str, keys: tuple[AdminKey, ...]) -> AdminKey:
    for key in keys:
        if key.key_id == key_id:
            return key
    raise NoSuchAdminKey(f"There is no admin key with the id {key_id[:64]!r}.")


def _with_owner(keys: tuple[AdminKey, ...]) -> tuple[AdminKey, ...]:
    if not any(key.role == "owner" and key.disabled_at_s is None for key in keys):
        raise AdminKeyError("At least one owner's key must stay enabled: make another one first.")
    return keys


def _encoded(keys: tuple[AdminKey, ...]) -> bytes:
    return msgspec.msgpack.encode((_FORMAT, keys))


def _decoded(stored: bytes) -> tuple[AdminKey, ...]:
    """Raises ConnectionError for another release's format: this one can then not say who may do what."""
    if not stored:
        return ()
    try:
        format_, keys = msgspec.msgpack.decode(stored, type=tuple[int, msgspec.Raw])
        if format_ == _FORMAT:
            return msgspec.msgpack.decode(keys, type=tuple[AdminKey, ...])
    except msgspec.MsgspecError:
        pass  # told below, like an unknown format
    raise ConnectionError("The admin keys in the store are in a format that this release does not know.")


def _sha256(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
