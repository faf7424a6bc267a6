"""The shell around one worker's data plane: serves it and does what the supervisor says.

A worker ends when it was told to drain, when SIGTERM comes, or when its supervisor is gone.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from ..evidence.desk import AskCache, CacheDesk, NoCache
from ..pools.desk import AskPools, NoPools, PoolDesk, answered
from ..pools.effective import Specs
from ..settings.reading import Settings
from ..telemetry import logs
from .control import ControlRecord
from .link import (
    Acknowledged,
    AskNumbers,
    Change,
    Drain,
    FailedLogins,
    FromWorker,
    HearSignals,
    Link,
    LiveWorkers,
    Numbers,
    Ready,
    ToWorker,
    UsePools,
    to_supervisor,
)
from .runtime import Gateway, OpenGateway, Runtime
from .serving import Server, bind
from .tls import server_context

_log = structlog.get_logger("gateway.host.worker")

_ORPHAN_DRAIN_S, _ORPHAN_END_S = 1.0, 5.0
_FAILURES, _FAILURES_EVERY_S = 1_000, 1.0
# Objects. Python's 700 are made within a few requests, nearly all of them in use; more of them at once would be a pause
# that others feel.
_COLLECTED_AFTER = 5_000


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Everything a spawned worker starts from. `factory` is the `module:function` of an `OpenGateway`."""

    settings: Settings
    worker: int
    data_plane: str  # HOST:PORT, reserved by the supervisor
    durable_url: str = field(repr=False)
    cache_url: str = field(repr=False)
    secret: bytes = field(repr=False)
    specs: Specs = field(repr=False)
    factory: str


def run_worker(plan: WorkerPlan, control: socket.socket) -> None:
    """The entry of a spawned worker process."""
    logs.configure(worker=plan.worker)
    _end_with_supervisor()
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        runner.run(_Shell(plan).run(control))


def _new_loop() -> asyncio.AbstractEventLoop:
    import uvloop  # here, not above: the supervisor imports this file and needs no second event loop

    return uvloop.new_event_loop()


def _end_with_supervisor() -> None:
    """Orderly ends are the event loop's; this is the bound, should the loop be stuck when the supervisor dies."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        time.sleep(_ORPHAN_END_S)
        os._exit(1)

    threading.Thread(target=watch, name="watch supervisor", daemon=True).start()


class _Shell:
    def __init__(self, plan: WorkerPlan) -> None:
        self._plan = plan
        self._live_workers = 1
        self._pools: PoolDesk = NoPools()
        self._cache: CacheDesk = NoCache()
        self._answers: set[asyncio.Task[None]] = set()
        self._on_control: list[Callable[[ControlRecord], None]] = []
        self._failed_logins: Counter[tuple[str, str | None]] = Counter()

    async def run(self, control: socket.socket) -> None:
        link = await to_supervisor(control)
        open_gateway: OpenGateway = _resolve(self._plan.factory)
        async with open_gateway(self._plan.settings, self._runtime()) as gateway:
            gc.freeze()  # what is there now stays: to look through it again and again is a share of every request
            gc.set_threshold(_COLLECTED_AFTER)
            settings = self._plan.settings.server
            server = Server(
                gateway.asgi,
                grace_s=settings.grace_s,
                tls=None if settings.tls is None else server_context(settings.tls, setting="server.tls"),
                trusted_proxies=settings.trusted_proxies,
            )
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, _drain, gateway, server)
            listening = asyncio.create_task(self._listen(link, gateway, server), name="listen to supervisor")
            telling = asyncio.create_task(self._tell_failures(link), name="tell of failed logins")
            listener = bind(self._plan.data_plane, setting="server.bind", is_shared=True)
            try:
                await server.serve(sockets=[listener])
            finally:
                for task in (listening, telling):
                    task.cancel()
                await asyncio.wait([listening, telling])
            link.send(_numbers(gateway))  # what the last requests counted must not be lost
            await link.flush()
        link.close()

    def _runtime(self) -> Runtime:
        plan = self._plan
        return Runtime(
            worker=plan.worker,
            durable_url=plan.durable_url,
            cache_url=plan.cache_url,
            secret=plan.secret,
            live_workers=lambda: self._live_workers,
            on_control=self._on_control.append,
            on_failed_login=self._note_failure,
            specs=plan.specs,
            offer_pools=self._take_pools,
            offer_cache=self._take_cache,
        )

    def _take_pools(self, desk: PoolDesk) -> None:
        self._pools = desk

    def _take_cache(self, desk: CacheDesk) -> None:
        self._cache = desk

    def _note_failure(self, address: str, key_id: str | None) -> None:
        if len(self._failed_logins) < _FAILURES or (address, key_id) in self._failed_logins:
            self._failed_logins[address, key_id] += 1

    async def _tell_failures(self, link: Link[FromWorker, ToWorker]) -> None:
        """Added up, so that a flood of them is no flood of messages."""
        while True:
            await asyncio.sleep(_FAILURES_EVERY_S)
            if self._failed_logins:
                counted = [
                    (address, key_id, times) for (address, key_id), times in self._failed_logins.items()
                ]
                self._failed_logins.clear()
                link.send(FailedLogins(counted))

    async def _listen(self, link: Link[FromWorker, ToWorker], gateway: Gateway, server: Server) -> None:
        await server.listens.wait()
        link.send(Ready())
        while (message := await link.receive()) is not None:
            match message:
                case AskNumbers():
                    link.send(_numbers(gateway))
                case LiveWorkers(count):
                    self._live_workers = max(1, count)
                case Change(change_id, record):
                    for apply in self._on_control:
                        apply(record)
                    link.send(Acknowledged(change_id))
                case UsePools(change_id, specs):
                    self._pools.use(specs)
                    link.send(Acknowledged(change_id))
                case HearSignals(signals):
                    self._pools.hear(signals)
                case AskPools():
                    link.send(answered(message, self._pools))
                case AskCache():
                    # It takes as long as an embedding and a few round trips: what else is said must not wait for it.
                    task = asyncio.create_task(self._answer_cache(message, link))
                    self._answers.add(task)
                    task.add_done_callback(self._answers.discard)
                case Drain(grace_s):
                    _drain(gateway, server, grace_s=grace_s)
        _log.warning("the supervisor is gone: this worker ends")
        _drain(gateway, server, grace_s=_ORPHAN_DRAIN_S)

    async def _answer_cache(self, ask: AskCache, link: Link[FromWorker, ToWorker]) -> None:
        link.send(await self._cache.answer(ask))


def _drain(gateway: Gateway, server: Server, *, grace_s: float | None = None) -> None:
    gateway.start_draining()
    server.end(grace_s=grace_s)


def _numbers(gateway: Gateway) -> Numbers:
    readiness = gateway.readiness()
    return Numbers(gateway.metrics.snapshot(), readiness.state, list(readiness.reasons))


def _resolve(factory: str) -> OpenGateway:
    module, _, name = factory.partition(":")
    opener: OpenGateway = getattr(importlib.import_module(module), name)
    return opener
