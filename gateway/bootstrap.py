"""Decides what must be in the durable store before anybody is served: the deployment secret and an admin key."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Awaitable
from typing import Any, Protocol

import structlog
from redis.exceptions import ResponseError

from .data_folder import DataFolder
from .settings_sections import split_bind

_log = structlog.get_logger("gateway.bootstrap")

_SECRET = "eg:{k}:secret"  # noqa: S105 - the name of a store key
_ADMIN = "eg:{k}:admin"
_PAUSE_S = 0.2
_PATIENCE_S = 2.0  # per command: nobody is being served yet
_LINE_EVERY_S = 10.0


class BootstrapError(Exception):
    """The durable store is not fit for its role. The message says what to change."""


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...


class AdminKey:
    """What an admin key is checked against: its hash (None: there is no admin key).

    `new` is the key itself where this start made it, to be shown once.
    """

    def __init__(self, sha256: bytes | None, *, new: str | None = None) -> None:
        self._sha256 = sha256
        self.new = new

    @property
    def exists(self) -> bool:
        return self._sha256 is not None

    def is_right(self, presented: str) -> bool:
        """In time that does not tell how far it is right."""
        return hmac.compare_digest(_sha256(presented), self._sha256 or b"\0" * 32) and self.exists


async def wait_for_store(store: Store) -> None:
    """Until the durable store answers. It says so in the log while it does not."""
    next_line = 0.0
    while True:
        try:
            await store.execute("PING", deadline=time.monotonic() + _PATIENCE_S)
        except OSError:
            if time.monotonic() >= next_line:
                next_line = time.monotonic() + _LINE_EVERY_S
                _log.warning("waiting for the durable store (store.durable) to answer")
            await asyncio.sleep(_PAUSE_S)
        else:
            return


async def refuse_evicting_policy(store: Store) -> None:
    """A store that may evict keys, limits and revocations is not durable. Raises BootstrapError."""
    try:
        reply = await store.execute("CONFIG", "GET", "maxmemory-policy", deadline=_soon())
    except ResponseError:  # managed stores often forbid CONFIG
        _log.warning("store.durable does not tell its maxmemory-policy; it must be noeviction")
        return
    values = list(reply.values()) if isinstance(reply, dict) else list(reply)
    policy = values[-1].decode() if values else "noeviction"
    if policy != "noeviction":
        raise BootstrapError(
            f"store.durable has the maxmemory-policy {policy!r}, which may drop keys and limits: set it to "
            "noeviction, or point store.durable at another store"
        )


async def deployment_secret(store: Store) -> bytes:
    """The secret under which digests are made, the same for all hosts of a deployment; made by the first."""
    await store.execute("SET", _SECRET, secrets.token_bytes(32), "NX", deadline=_soon())
    found: bytes = await store.execute("GET", _SECRET, deadline=_soon())
    return found


async def admin_key(store: Store, folder: DataFolder, *, bind: str) -> AdminKey:
    """The admin key, made and written to the data folder if there is none and the plane is local.

    The file comes first: if we die in between, the next start finds it and registers the same key.
    """
    known: bytes | None = await store.execute("GET", _ADMIN, deadline=_soon())
    if known is not None:
        return AdminKey(known)
    if not is_loopback(bind):
        _log.warning(
            "there is no admin key, and none is made while admin.bind is not a loopback address", bind=bind
        )
        return AdminKey(None)
    key = folder.read_admin_key()
    new = None
    if key is None:
        key = new = f"ega-{secrets.token_urlsafe(32)}"
        folder.write_admin_key(new)
    await store.execute("SET", _ADMIN, _sha256(key), "NX", deadline=_soon())
    registered: bytes = await store.execute("GET", _ADMIN, deadline=_soon())
    if new is not None and registered != _sha256(new):  # another host was faster
        folder.remove_admin_key()
        new = None
    return AdminKey(registered, new=new)


def is_loopback(bind: str) -> bool:
    host, _ = split_bind(bind)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _sha256(key: str) -> bytes:
    return hashlib.sha256(key.encode()).digest()


def _soon() -> float:
    return time.monotonic() + _PATIENCE_S
