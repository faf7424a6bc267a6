"""`serve` itself: starts everything in order, keeps it running, and stops it in the reverse order.

    data folder locked → store → admin plane → durable store fit, secret known → workers → serving
    readiness off → workers drain → admin plane → store → data folder free

The first SIGTERM or SIGINT stops in order, whatever has been started by then; the second stops at once.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry

from .admin.plane import AdminPlane
from .embedded import StoreProcess, StoreProcessError
from .evidence.desk import CacheTold, Wish
from .host.bootstrap import deployment_secret, first_admin_key, refuse_evicting_policy, wait_for_store
from .host.control import ControlRecord, PoolsChanged, follow
from .host.data_folder import DataFolder, Holder
from .host.fleet import Fleet
from .host.runtime import Readiness
from .host.serving import Server, address_of, bind, reserve
from .host.tls import server_context
from .host.worker import WorkerPlan
from .pools.host import HostPools
from .settings.reading import Settings, read_encrypt_keys
from .store.client import StoreClient
from .telemetry import logs, metrics_table
from .telemetry.metrics import Counters, gauge
from .telemetry.metrics_merge import Snapshot, merge, take

_log = structlog.get_logger("gateway.supervisor")

DEFAULT_FACTORY = "gateway.app:open_gateway"

_STORE_DEADLINE_S = 1.0
_FOLLOWER_SILENCE_S = 10.0  # its blocking reads last two seconds
_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0
_ADMIN_GRACE_S = 1.0


def serve(settings: Settings, *, config: Path | None = None, factory: str = DEFAULT_FACTORY) -> int:
    """Run until told to stop; the exit status. Raises SettingsError, DataFolderError, BindError,
    StoreProcessError, BootstrapError or StartFailed if it cannot start."""
    logs.configure()
    folder = DataFolder(settings.data_dir)
    supervisor = Supervisor(settings, folder, config=config, factory=factory)
    return asyncio.run(supervisor.run())


class Supervisor:
    def __init__(self, settings: Settings, folder: DataFolder, *, config: Path | None, factory: str) -> None:
        self._settings = settings
        self._config = config
        self._folder = folder
        self._factory = factory
        self._fleet: Fleet | None = None
        self._stop = asyncio.Event()
        self._signals = 0
        self._registry = CollectorRegistry()
        self._workers = gauge(metrics_table.WORKERS, self._registry)
        self._pools: HostPools | None = None
        self._restarts = Counters(metrics_table.RESTARTS, self._registry)

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        work = asyncio.create_task(self._work(), name="serve")
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, work)
        try:
            await work
        except asyncio.CancelledError:
            if not self._signals:
                raise
        return 0 if self._signals <= 1 else 1

    def _on_signal(self, work: asyncio.Task[None]) -> None:
        self._signals += 1
        if self._fleet is None:
            work.cancel()  # still starting: what was begun is undone
        elif self._signals == 1:
            self._stop.set()
        else:
            self._fleet.kill()

    async def _work(self) -> None:
        settings = self._settings
        read_encrypt_keys(
            settings.store.encrypt_keys
        )  # else every worker would end for want of one, again and again
        async with AsyncExitStack() as stack:
            lock = stack.enter_context(self._folder.held())
            data_plane = stack.enter_context(reserve(settings.server.bind, setting="server.bind"))
            admin_plane = stack.enter_context(bind(settings.admin.bind, setting="admin.bind"))
            holder = Holder(os.getpid(), address_of(data_plane), address_of(admin_plane))
            lock.say(holder)
            durable_url, cache_url = await stack.enter_async_context(self._stores())
            store = await stack.enter_async_context(
                StoreClient.open(durable_url, deadline_s=_STORE_DEADLINE_S, name="durable store")
            )
            pools = self._pools = HostPools(
                settings,
                store,
                config=self._config,
                fleet=lambda: self._fleet,
                registry=self._registry,
            )
            admin = AdminPlane(
                settings,
                self._folder,
                store,
                apply=self._apply,
                metrics=self._metrics,
                readiness=self._readiness,
                pools=pools,
                ask_cache=self._ask_cache,
            )
            await stack.enter_async_context(self._served(admin, admin_plane))
            secret = await self._bootstrap(store, admin)
            await stack.enter_async_context(admin.attending(holder.admin))
            plan = WorkerPlan(
                settings=settings,
                worker=0,
                data_plane=holder.data_plane,
                durable_url=durable_url,
                cache_url=cache_url,
                secret=secret,
                specs=await pools.begin(),
                factory=self._factory,
            )
            follower = await stack.enter_async_context(
                StoreClient.open(durable_url, silence_s=_FOLLOWER_SILENCE_S, name="control changes")
            )
            self._fleet = Fleet(
                plan,
                count=settings.server.workers,
                on_restart=self._restarts.add,
                on_failed_logins=admin.note_failure,
            )
            await stack.enter_async_context(pools.kept(self._fleet.hear))
            await self._serve(self._fleet, follower, holder, stack)

    async def _bootstrap(self, store: StoreClient, admin: AdminPlane) -> bytes:
        await wait_for_store(store)
        if not self._settings.store.is_embedded:
            await refuse_evicting_policy(store)
        secret = await deployment_secret(store)
        key = await first_admin_key(admin.keys, self._folder, bind=self._settings.admin.bind)
        if key is not None and sys.stderr.isatty():
            print(f"The admin key, also in {self._folder.admin_key_path}: {key}", file=sys.stderr)
        return secret

    async def _serve(
        self, fleet: Fleet, follower: StoreClient, holder: Holder, stack: AsyncExitStack
    ) -> None:
        """Until told to stop and drained. Raises StartFailed."""
        await stack.enter_async_context(_background(follow(follower, self._on_change)))
        await stack.enter_async_context(_background(self._announce(fleet, holder)))
        running = asyncio.create_task(fleet.run(), name="run workers")
        stopping = asyncio.create_task(self._stop.wait(), name="wait for a signal")
        try:
            await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
            if stopping.done():
                _log.info("draining", grace_s=self._settings.server.grace_s)
                fleet.stop(grace_s=self._settings.server.grace_s)
            await running
        finally:
            stopping.cancel()

    async def _announce(self, fleet: Fleet, holder: Holder) -> None:
        await fleet.has_served.wait()
        settings = self._settings
        _log.info(
            "serving",
            data_plane=f"{'http' if settings.server.tls is None else 'https'}://{holder.data_plane}",
            admin=f"{'http' if settings.admin.tls is None else 'https'}://{holder.admin}",
        )

    async def _on_change(self, change_id: str, record: ControlRecord) -> None:
        """From any host's admin plane, this one's too: to apply a change twice does no harm."""
        if isinstance(record, PoolsChanged):
            if self._pools is not None:
                await self._pools.follow()
        elif self._fleet is not None:
            self._fleet.forward(change_id, record)

    # --- the store

    @asynccontextmanager
    async def _stores(self) -> AsyncIterator[tuple[str, str]]:
        """The URLs of the durable and the cache role; embedded, both are one store of ours."""
        configured = self._settings.store
        if configured.durable is not None and configured.cache is not None:
            yield configured.durable, configured.cache
            return
        process = StoreProcess(self._settings.data_dir)
        url = await process.start()
        try:
            async with _background(_keep(process)):
                yield url, url
        finally:
            await process.stop()

    # --- the admin plane

    @asynccontextmanager
    async def _served(self, admin: AdminPlane, listener: socket.socket) -> AsyncIterator[None]:
        settings = self._settings.admin
        tls = None if settings.tls is None else server_context(settings.tls, setting="admin.tls")
        server = Server(
            admin.app(), grace_s=_ADMIN_GRACE_S, tls=tls, trusted_proxies=settings.trusted_proxies
        )
        serving = asyncio.create_task(server.serve(sockets=[listener]), name="serve the admin plane")
        try:
            yield
        finally:
            server.end()
            await serving

    async def _apply(self, change_id: str, record: ControlRecord) -> list[int]:
        return await self._fleet.apply(change_id, record) if self._fleet is not None else []

    async def _ask_cache(self, wish: Wish) -> CacheTold | None:
        return None if self._fleet is None else await self._fleet.ask_cache(wish)

    async def _metrics(self) -> Snapshot:
        fleet = self._fleet
        workers = await fleet.numbers() if fleet is not None else Snapshot()
        self._workers.set(len(fleet.ready) if fleet is not None else 0)
        return merge([workers, take(self._registry)])

    async def _readiness(self) -> Readiness:
        fleet = self._fleet
        if self._stop.is_set():
            return Readiness("draining")
        if fleet is None or not fleet.has_served.is_set():
            return Readiness("starting", ("workers are not ready yet",))
        reasons = dict.fromkeys(await fleet.reasons())
        if (missing := self._settings.server.workers - len(fleet.ready)) > 0:
            reasons[f"{missing} of {self._settings.server.workers} workers are being replaced"] = None
        return Readiness("degraded" if reasons else "ok", tuple(reasons))


async def _keep(process: StoreProcess) -> None:
    """Start the embedded store again whenever it ends; requests go on without it meanwhile."""
    pause_s = _FIRST_PAUSE_S
    while True:
        status = await process.wait()
        _log.error("the embedded store ended and is started again", status=status)
        await asyncio.sleep(pause_s)
        try:
            await process.start()
            pause_s = _FIRST_PAUSE_S
        except StoreProcessError as error:
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)
            _log.error("the embedded store did not start", reason=str(error))


@asynccontextmanager
async def _background(work: Coroutine[None, None, None]) -> AsyncIterator[None]:
    """Run it for as long as the block lasts."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
