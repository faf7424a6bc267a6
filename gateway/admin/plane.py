"""Puts together what the admin plane works on, and does what goes on beside it: audit, failovers, failed logins."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import structlog
from fastapi import FastAPI

from auth import (
    AuditLog,
    AuditRecord,
    FailureBursts,
    KeyRef,
    Limiter,
    Limits,
    Ref,
    Rights,
    ServiceRef,
    StoreDirectory,
    StoreLimits,
    TenantRef,
    reapply_after_failovers,
)

from ..evidence.desk import CacheTold, Wish
from ..host.control import ControlRecord, KeyChanged, TenantChanged, publish
from ..host.data_folder import DataFolder
from ..host.runtime import Readiness
from ..pools.host import HostPools
from ..settings.errors import SettingsError
from ..settings.reading import Settings, read_audit_key, read_credential
from ..store.client import StoreClient
from ..telemetry.metrics_merge import Snapshot
from ..usage.store import UsageStore
from . import AdminContext, create_app
from .auditing import Auditor
from .idempotency import Once
from .stored_keys import AdminKeys

_log = structlog.get_logger("gateway.admin")

_BURSTS_EVERY_S = 5.0


class AdminPlane:
    """Made once the store's client is there; the store itself may still be down. Raises SettingsError or
    DataFolderError where the audit key cannot be had."""

    def __init__(
        self,
        settings: Settings,
        folder: DataFolder,
        store: StoreClient,
        *,
        apply: Callable[[str, ControlRecord], Awaitable[list[int]]],
        metrics: Callable[[], Awaitable[Snapshot]],
        readiness: Callable[[], Awaitable[Readiness]],
        pools: HostPools,
        ask_cache: Callable[[Wish], Awaitable[CacheTold | None]] | None = None,
    ) -> None:
        name = settings.admin.audit_key_env
        audit_key = folder.audit_key() if name is None else read_audit_key(name)
        self._store = store
        self._apply = apply
        self._read_readiness = readiness
        self._directory = StoreDirectory(store)
        self.auditor = Auditor(AuditLog(store, key=audit_key))
        self._bursts = FailureBursts()
        self.keys = AdminKeys(store)
        limits = settings.limits
        self._context = AdminContext(
            directory=self._directory,
            admin_keys=self.keys,
            auditor=self.auditor,
            once=Once(store, key=audit_key),
            limiter=Limiter(StoreLimits(store), live_workers=lambda: 1),
            usage=UsageStore(store),
            rights=Rights(cache_scope=settings.cache.scope),
            default_limits=Limits(requests_per_s=limits.requests_per_s, burst=limits.burst),
            publish=self._publish,
            on_failed_login=lambda source_ip: self.note_failure(source_ip, None),
            metrics=metrics,
            readiness=self._readiness,
            pools=pools,
            store=store,
            ask_cache=ask_cache or _nobody,
            events_secret=_events_secret(settings),
            shows_texts=settings.admin.shows_texts,
        )

    def app(self) -> FastAPI:
        return create_app(self._context)

    def note_failure(self, source_ip: str, key_id: str | None, times: int = 1) -> None:
        """Somebody had no right key, on either plane."""
        self._bursts.note(source_ip, key_id, at_s=time.time(), times=times)

    @asynccontextmanager
    async def attending(self, address: str) -> AsyncIterator[None]:
        """Do what goes on beside the plane. Once the store answers, for as long as the block runs."""
        await self.auditor.record(
            AuditRecord(
                at_s=time.time(),
                actor="this host",
                role="none",
                action="serve",
                target=f"admin plane {address}",
                outcome="done",
            )
        )
        works = (self.auditor.keep_trying, self._record_bursts, self._reapply)
        tasks = [asyncio.create_task(_told(work)) for work in works]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def _readiness(self) -> Readiness:
        now = await self._read_readiness()
        if now.state in ("ok", "degraded") and self.auditor.waiting:
            return Readiness(
                "degraded", (*now.reasons, "nothing can be administered: the audit log takes no records")
            )
        return now

    async def _publish(self, record: ControlRecord) -> tuple[str | None, list[int]]:
        try:
            change_id = await publish(self._store, record)
        except OSError as error:
            # The directory has the change, and workers ask it again within a second.
            _log.warning("a change could not be announced to other hosts", reason=type(error).__name__)
            return None, await self._apply("", record)
        return change_id, await self._apply(change_id, record)

    async def _reapply(self) -> None:
        await reapply_after_failovers(
            self._directory,
            server_id=lambda: self._store.state.server_id,
            on_reapplied=self._on_reapplied,
        )

    async def _on_reapplied(self, refs: Sequence[Ref[Any]]) -> None:
        for ref in refs:
            _log.warning("a change that the store had lost in a failover was made again", of=str(ref))
            await self.auditor.record(
                AuditRecord(
                    at_s=time.time(),
                    actor="this host",
                    role="none",
                    action="reapply",
                    target=str(ref),
                    outcome="done",
                )
            )
            await self._publish(_changed(ref))

    async def record_bursts(self, *, now_s: float) -> None:
        """Those whose minute is over at that moment (wall clock)."""
        for burst in self._bursts.due(now_s):
            await self.auditor.record(burst.as_record())

    async def _record_bursts(self) -> None:
        while True:
            await asyncio.sleep(_BURSTS_EVERY_S)
            await self.record_bursts(now_s=time.time())


async def _nobody(_: Wish) -> None:
    """There are no workers."""


def _changed(ref: Ref[Any]) -> ControlRecord:
    match ref:
        case KeyRef(key_id):
            return KeyChanged(key_id)
        case ServiceRef(tenant, _) | TenantRef(tenant):
            return TenantChanged(tenant)
        case _:
            raise TypeError(f"{ref!r} names no record")


def _events_secret(settings: Settings) -> bytes | None:
    if (name := settings.admin.events_secret_env) is None:
        return None
    if (secret := read_credential(name)) is None:
        raise SettingsError(f"admin.events_secret_env: the environment variable {name} is not set")
    return secret.encode()


async def _told(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """A fault in one of these must not go unnoticed, and must not end the others."""
    try:
        await work()
    except Exception as error:  # the boundary of a task that nobody waits for
        _log.error("a task of the admin plane ended", error=type(error).__name__, exc_info=True)
