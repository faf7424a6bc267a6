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
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from . import logs
from .control import ControlRecord
from .link import (
    Acknowledged,
    AskNumbers,
    Change,
    Drain,
    FromWorker,
    Link,
    LiveWorkers,
    Numbers,
    Ready,
    ToWorker,
    to_supervisor,
)
from .runtime import Gateway, OpenGateway, Runtime
from .serving import Server, bind
from .settings import Settings

_log = structlog.get_logger("gateway.worker")

_ORPHAN_DRAIN_S, _ORPHAN_END_S = 1.0, 5.0


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """Everything a spawned worker starts from. `factory` is the `module:function` of an `OpenGateway`."""

    settings: Settings
    worker: int
    data_plane: str  # HOST:PORT, reserved by the supervisor
    durable_url: str = field(repr=False)
    cache_url: str = field(repr=False)
    secret: bytes = field(repr=False)
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
        self._on_control: list[Callable[[ControlRecord], None]] = []

    async def run(self, control: socket.socket) -> None:
        link = await to_supervisor(control)
        open_gateway: OpenGateway = _resolve(self._plan.factory)
        async with open_gateway(self._plan.settings, self._runtime()) as gateway:
            gc.freeze()  # what is there now stays: to look through it again and again is a share of every request
            server = Server(gateway.asgi, grace_s=self._plan.settings.server.grace_s)
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGTERM, _drain, gateway, server)
            listening = asyncio.create_task(self._listen(link, gateway, server), name="listen to supervisor")
            listener = bind(self._plan.data_plane, setting="server.bind", is_shared=True)
            try:
                await server.serve(sockets=[listener])
            finally:
                listening.cancel()
                await asyncio.wait([listening])
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
        )

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
                case Drain(grace_s):
                    _drain(gateway, server, grace_s=grace_s)
        _log.warning("the supervisor is gone: this worker ends")
        _drain(gateway, server, grace_s=_ORPHAN_DRAIN_S)


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
