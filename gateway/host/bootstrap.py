"""Decides what must be in the durable store before anybody is served: the deployment secret and an admin key."""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
import time
from collections.abc import Awaitable
from typing import Any, Protocol

import structlog
from redis.exceptions import ResponseError

from ..admin.stored_keys import AdminKeys, mint, of_plaintext
from ..settings.sections import split_bind
from .data_folder import DataFolder

_log = structlog.get_logger("gateway.host.bootstrap")

_SECRET = "eg:{k}:secret"  # noqa: S105 - the name of a store key
_FIRST = "the first one"
_PAUSE_S = 0.2
_PATIENCE_S = 2.0  # per command: nobody is being served yet
_LINE_EVERY_S = 10.0


class BootstrapError(Exception):
    """The durable store is not fit for its role. The message says what to change."""


class Store(Protocol):
    def execute(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> Awaitable[Any]: ...

    async def execute_everywhere(
        self, *command: bytes | str | int | float, deadline: float | None = None
    ) -> list[Any]: ...


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
        replies = await store.execute_everywhere("CONFIG", "GET", "maxmemory-policy", deadline=_soon())
    except ResponseError:  # managed stores often forbid CONFIG
        _log.warning("store.durable does not tell its maxmemory-policy; it must be noeviction")
        return
    for _, policy_name in replies:
        if (policy := policy_name.decode()) == "noeviction":
            continue
        raise BootstrapError(
            f"store.durable has the maxmemory-policy {policy!r}, which may drop keys and limits: set it to "
            "noeviction, or point store.durable at another store"
        )


async def deployment_secret(store: Store) -> bytes:
    """The secret under which digests are made, the same for all hosts of a deployment; made by the first."""
    await store.execute("SET", _SECRET, secrets.token_bytes(32), "NX", deadline=_soon())
    found: bytes = await store.execute("GET", _SECRET, deadline=_soon())
    return found


async def first_admin_key(keys: AdminKeys, folder: DataFolder, *, bind: str) -> str | None:
    """Make the first admin key, an owner's, if there is none and the plane is local: it is written to the data
    folder, and returned where this start made it. Raises BootstrapError.

    The file comes first: if we die in between, the next start finds it and registers the same key.
    """
    if await keys.all():
        return None
    if not is_loopback(bind):
        _log.warning(
            "there is no admin key, and none is made while admin.bind is not a loopback address", bind=bind
        )
        return None
    written = folder.read_admin_key()
    if written is not None:
        record = of_plaintext(written, _FIRST, "owner", at_s=time.time())
        if record is None:
            raise BootstrapError(
                f"{folder.admin_key_path} does not hold an admin key (ega-<id>-<secret>): remove the file, and "
                "the next start makes a key"
            )
        await keys.add_first(record)
        return None
    record, key = mint(_FIRST, "owner", at_s=time.time())
    folder.write_admin_key(key)
    if not await keys.add_first(record):  # another host was faster
        folder.remove_admin_key()
        return None
    return key


def is_loopback(bind: str) -> bool:
    host, _ = split_bind(bind)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _soon() -> float:
    return time.monotonic() + _PATIENCE_S
