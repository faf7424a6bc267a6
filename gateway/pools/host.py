"""The pools of this host, as its supervisor has them: what they are to be (pools/keeper.py), what the servers say of
themselves (pools/watch.py), and how each worker sees them (host/fleet.py). The admin plane asks here."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from prometheus_client import CollectorRegistry

from backends import AddressRule, Finding, Signals, StorePoolState, VllmBackend

from ..host.control import PoolsChanged, publish
from ..host.fleet import Fleet
from ..settings.reading import Settings
from ..store.client import StoreClient
from ..telemetry import metrics_table as table
from ..telemetry.metrics import Counters
from .desk import PoolsTold, RouteQuestion
from .effective import Specs
from .keeper import PoolKeeper, Reload
from .watch import PoolWatch


class HostPools:
    """`begin` once the durable store answers; `kept` for as long as workers run. `fleet` gives None before that."""

    def __init__(
        self,
        settings: Settings,
        store: StoreClient,
        *,
        config: Path | None,
        fleet: Callable[[], Fleet | None],
        registry: CollectorRegistry,
    ) -> None:
        self._settings = settings
        self._store = store
        self._fleet = fleet
        self._registry = registry
        self._watch: PoolWatch | None = None
        self._is_kept = False
        self.keeper = PoolKeeper(
            settings,
            config=config,
            state=StorePoolState(store),
            push=self._push,
            announce=self._announce,
            on_reload=Counters(table.RELOADS, registry).add,
        )

    async def begin(self) -> Specs:
        """The pools at the start. Raises SettingsError."""
        return await self.keeper.begin()

    @asynccontextmanager
    async def kept(self, send: Callable[[Sequence[Signals]], None]) -> AsyncIterator[None]:
        """Watched over, and following what changes. SIGHUP means: look at the file now. `send` hands signals on."""
        upstream = self._settings.upstream
        watch = PoolWatch(
            self.keeper.specs,
            backend=VllmBackend(addresses=AddressRule(allowed=upstream.allow_networks)),
            interval_s=upstream.poll_interval_ms / 1000,
            send=send,
        )
        async with watch, self.keeper.keeping(), _on_hangup(self.keeper.reload):
            self._watch, self._is_kept = watch, True
            self._registry.register(watch)
            yield

    async def follow(self) -> None:
        """Another host, or this one, changed something."""
        if self._is_kept:
            await self.keeper.refresh()

    # --- for admins

    async def told(self) -> dict[int, PoolsTold]:
        """How the members stand, by the number of the worker that says so."""
        fleet = self._fleet()
        return await fleet.pool_members() if fleet is not None else {}

    async def explain(self, question: RouteQuestion) -> PoolsTold | None:
        """None where no worker answers."""
        fleet = self._fleet()
        return await fleet.explain_route(question) if fleet is not None else None

    def findings(self) -> list[Finding]:
        return self._watch.findings() if self._watch is not None else []

    def signals(self) -> dict[str, Signals]:
        """By member, the last that each said."""
        return {said.member: said for said in self._watch.latest} if self._watch is not None else {}

    async def _push(self, change_id: str, specs: Specs) -> list[int]:
        if self._watch is not None:
            await self._watch.follow(specs)
        fleet = self._fleet()
        return await fleet.use_pools(change_id, specs) if fleet is not None else []

    async def _announce(self) -> None:
        with suppress(OSError):  # other hosts look by themselves within seconds
            await publish(self._store, PoolsChanged())


@asynccontextmanager
async def _on_hangup(reload: Callable[[], Awaitable[Reload]]) -> AsyncIterator[None]:
    loop = asyncio.get_running_loop()
    asked = asyncio.Event()

    async def answer() -> None:
        while True:
            await asked.wait()
            asked.clear()
            await reload()

    task = asyncio.create_task(answer(), name="reload on SIGHUP")
    loop.add_signal_handler(signal.SIGHUP, asked.set)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
        task.cancel()
        await asyncio.wait([task])
