"""Owns the workers: spawns them, replaces those that die, talks to them, and stops them in order."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace

import structlog

from backends import Signals

from ..evidence.desk import CacheTold, Wish
from ..pools.desk import PoolsTold, RouteQuestion
from ..pools.effective import Specs
from ..telemetry.metrics_merge import Snapshot, merge, totals_only
from .control import ControlRecord
from .fleet_worker import OnFailedLogins, Worker
from .link import Change, HearSignals, LiveWorkers, UsePools
from .worker import WorkerPlan

_log = structlog.get_logger("gateway.host.fleet")

_FIRST_PAUSE_S, _LAST_PAUSE_S = 0.1, 5.0
_STEADY_S = 30.0  # a worker that lived this long starts the next pause anew
_NUMBERS_EVERY_S = 5.0
_KILL_AFTER_S = 3.0  # beyond the grace: a worker's own clean-up


class StartFailed(Exception):
    """A worker ended before it was ready the first time; its own log lines say why."""


class Fleet:
    """Keeps `count` workers running. `run` until `stop`."""

    def __init__(
        self,
        plan: WorkerPlan,
        *,
        count: int,
        on_restart: Callable[[], None],
        on_failed_logins: OnFailedLogins,
    ) -> None:
        self._plan = plan
        self._count = count
        self._workers: dict[int, Worker] = {}
        self._retired = Snapshot()
        self._is_stopping = asyncio.Event()
        self.has_served = asyncio.Event()
        self._on_restart = on_restart
        self._on_failed_logins = on_failed_logins

    async def run(self) -> None:
        """Returns after `stop`, when all workers have ended. Raises StartFailed if one never served."""
        try:
            async with asyncio.TaskGroup() as group:
                for number in range(self._count):
                    group.create_task(self._keep(number), name=f"keep worker {number}")
                asking = group.create_task(self._ask_now_and_then(), name="ask workers for numbers")
                await self._is_stopping.wait()
                asking.cancel()
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
        finally:
            self.kill()  # nothing is left, unless this task was cancelled

    def stop(self, *, grace_s: float) -> None:
        """Let the workers finish; `run` returns when they have, or were killed after the grace."""
        self._is_stopping.set()
        for worker in self._workers.values():
            worker.end(grace_s=grace_s)
        asyncio.get_running_loop().call_later(grace_s + _KILL_AFTER_S, self.kill)

    def kill(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    @property
    def ready(self) -> list[Worker]:
        return [worker for worker in self._workers.values() if worker.is_ready]

    async def reasons(self, *, timeout_s: float = 0.5) -> list[str]:
        """What the workers miss, each in its own words."""
        await self._within(timeout_s, [worker.ask_numbers() for worker in self.ready])
        return [reason for worker in self.ready if worker.numbers for reason in worker.numbers.reasons]

    async def numbers(self, *, timeout_s: float = 1.0) -> Snapshot:
        """All workers' metrics added up, those that ended included. One that is late counts as last heard."""
        await self._within(timeout_s, [worker.ask_numbers() for worker in self.ready])
        heard = [worker.numbers.snapshot for worker in self._workers.values() if worker.numbers]
        return merge([self._retired, *heard])

    def forward(self, change_id: str, record: ControlRecord) -> None:
        for worker in self.ready:
            worker.send(Change(change_id, record))

    async def apply(self, change_id: str, record: ControlRecord, *, timeout_s: float = 1.0) -> list[int]:
        """Apply the change in all workers; the numbers of those that did not acknowledge it in time."""
        change = Change(change_id, record)
        workers = self.ready
        late = await self._within(timeout_s, [worker.apply(change) for worker in workers])
        return [worker.number for worker, is_late in zip(workers, late, strict=True) if is_late]

    # --- pools

    async def use_pools(self, change_id: str, specs: Specs, *, timeout_s: float = 1.0) -> list[int]:
        """Let all workers, those to come as well, have these; the numbers of those that were late."""
        self._plan = replace(self._plan, specs=specs)
        change = UsePools(change_id, specs)
        workers = self.ready
        late = await self._within(timeout_s, [worker.apply(change) for worker in workers])
        return [worker.number for worker, is_late in zip(workers, late, strict=True) if is_late]

    def hear(self, signals: Sequence[Signals]) -> None:
        message = HearSignals(list(signals))
        for worker in self.ready:
            worker.send(message)

    async def pool_members(self, *, timeout_s: float = 1.0) -> dict[int, PoolsTold]:
        """What each worker says of its pools, by its number; those that are late are left out."""
        found: dict[int, PoolsTold] = {}

        async def ask(worker: Worker) -> None:
            found[worker.number] = await worker.ask_pools()

        await self._within(timeout_s, [ask(worker) for worker in self.ready])
        return found

    async def explain_route(self, question: RouteQuestion, *, timeout_s: float = 1.0) -> PoolsTold | None:
        """One worker's answer; None if nobody answered in time."""
        for worker in self.ready:
            try:
                async with asyncio.timeout(timeout_s):
                    return await worker.ask_pools(question)
            except TimeoutError:
                continue
        return None

    async def ask_cache(self, wish: Wish, *, timeout_s: float = 10.0) -> CacheTold | None:
        """One worker's answer; None if nobody answered in time."""
        for worker in self.ready:
            try:
                async with asyncio.timeout(timeout_s):
                    return await worker.ask_cache(wish)
            except TimeoutError:
                continue
        return None

    async def _within(self, timeout_s: float, waits: Sequence[Coroutine[None, None, None]]) -> list[bool]:
        """Wait for all of them together; which of them were late."""
        if not waits:
            return []
        tasks = [asyncio.create_task(wait) for wait in waits]
        _, late = await asyncio.wait(tasks, timeout=timeout_s)
        for task in late:
            task.cancel()
        return [task in late for task in tasks]

    async def _ask_now_and_then(self) -> None:
        """So that little is lost of the counts of a worker that is killed."""
        while True:
            await asyncio.sleep(_NUMBERS_EVERY_S)
            await self.numbers()

    async def _keep(self, number: int) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._is_stopping.is_set():
            started = time.monotonic()
            worker = await Worker.spawn(replace(self._plan, worker=number))
            self._workers[number] = worker
            code = await worker.converse(self._on_ready, self._on_failed_logins)
            del self._workers[number]
            self._retire(worker)
            if self._is_stopping.is_set():
                return
            if not self.has_served.is_set():
                raise StartFailed(f"worker {number} ended with status {code} before it served")
            pause_s = _FIRST_PAUSE_S if time.monotonic() - started > _STEADY_S else pause_s
            _log.error(
                "a worker ended and is replaced", worker=number, status=code, pause_s=round(pause_s, 2)
            )
            self._on_restart()
            await self._pause(pause_s * random.uniform(0.8, 1.2))  # noqa: S311 - jitter, not a secret
            pause_s = min(pause_s * 2, _LAST_PAUSE_S)

    def _on_ready(self, worker: Worker) -> None:
        worker.send(UsePools("start", self._plan.specs))  # they may have changed since it was spawned
        self._tell_count()
        if len(self.ready) == self._count:
            self.has_served.set()

    def _retire(self, worker: Worker) -> None:
        self._tell_count()
        if worker.numbers is not None:
            self._retired = merge([self._retired, totals_only(worker.numbers.snapshot)])

    def _tell_count(self) -> None:
        ready = self.ready
        for worker in ready:
            worker.send(LiveWorkers(len(ready)))

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._is_stopping.wait()
        except TimeoutError:
            return

    def __repr__(self) -> str:
        return f"<Fleet of {self._count}: {list(self._workers.values())}>"
