"""One worker as the supervisor sees it: its process, and the conversation with it."""

from __future__ import annotations

import asyncio
import itertools
import multiprocessing
import signal
import socket
from collections.abc import Callable
from multiprocessing.context import SpawnProcess

from ..evidence.desk import AskCache, CacheTold, Wish
from ..pools.desk import AskPools, PoolsTold, RouteQuestion
from .link import (
    Acknowledged,
    AskNumbers,
    Change,
    Drain,
    FailedLogins,
    FromWorker,
    Link,
    Numbers,
    Ready,
    ToWorker,
    UsePools,
    to_worker,
)
from .worker import WorkerPlan, run_worker

_END_S = 3.0  # a worker that speaks no more is given this long to end

# Never forked: locks, sockets and exporters of this process would be inherited in whatever state they are.
_spawn = multiprocessing.get_context("spawn")

OnFailedLogins = Callable[[str, str | None, int], None]  # address, public key id, how often


class Worker:
    """One worker process and the conversation with it."""

    def __init__(self, number: int, process: SpawnProcess, link: Link[ToWorker, FromWorker]) -> None:
        self.number = number
        self.is_ready = False
        self.numbers: Numbers | None = None
        self._process = process
        self._link = link
        self._asked: asyncio.Future[None] | None = None
        self._unacknowledged: dict[str, asyncio.Future[None]] = {}
        self._questions: dict[int, asyncio.Future[PoolsTold]] = {}
        self._cache_questions: dict[int, asyncio.Future[CacheTold]] = {}
        self._question_ids = itertools.count()

    @classmethod
    async def spawn(cls, plan: WorkerPlan) -> Worker:
        ours, theirs = socket.socketpair()
        process = _spawn.Process(
            target=run_worker,
            args=(plan, theirs),
            name=f"echogate-worker-{plan.worker}",
            daemon=True,
        )
        # Ctrl-C reaches the whole process group; the workers' end is ordered by us. The mask is inherited.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            theirs.close()
        return cls(plan.worker, process, await to_worker(ours))

    async def converse(self, on_ready: Callable[[Worker], None], on_failed_logins: OnFailedLogins) -> int:
        """Listen until the process has ended; its exit code."""
        while (message := await self._link.receive()) is not None:
            match message:
                case Ready():
                    self.is_ready = True
                    on_ready(self)
                case Numbers():
                    self.numbers = message
                    if self._asked is not None and not self._asked.done():
                        self._asked.set_result(None)
                case FailedLogins(failures):
                    for source_ip, key_id, times in failures:
                        on_failed_logins(source_ip, key_id, times)
                case Acknowledged(change_id):
                    if (waiting := self._unacknowledged.pop(change_id, None)) and not waiting.done():
                        waiting.set_result(None)
                case PoolsTold(ask_id):
                    if (question := self._questions.pop(ask_id, None)) and not question.done():
                        question.set_result(message)
                case CacheTold(ask_id):
                    if (asked := self._cache_questions.pop(ask_id, None)) and not asked.done():
                        asked.set_result(message)
        self.is_ready = False
        self._link.close()
        await self._ended()
        return self._process.exitcode or 0

    async def _ended(self) -> None:
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            async with asyncio.timeout(_END_S):
                await ended.wait()
        except TimeoutError:  # it speaks to us no more, so it is of no use
            self.kill()
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()

    def send(self, message: ToWorker) -> None:
        self._link.send(message)

    async def ask_numbers(self) -> None:
        """Refresh `numbers`; the caller sets the bound."""
        if self._asked is None or self._asked.done():
            self._asked = asyncio.get_running_loop().create_future()
            self.send(AskNumbers())
        await asyncio.shield(self._asked)

    async def ask_pools(self, question: RouteQuestion | None = None) -> PoolsTold:
        """The caller sets the bound."""
        ask = AskPools(next(self._question_ids), question)
        waiting: asyncio.Future[PoolsTold] = asyncio.get_running_loop().create_future()
        self._questions[ask.ask_id] = waiting
        self.send(ask)
        try:
            return await waiting
        finally:
            self._questions.pop(ask.ask_id, None)

    async def ask_cache(self, wish: Wish) -> CacheTold:
        """The caller sets the bound."""
        ask = AskCache(next(self._question_ids), wish)
        waiting: asyncio.Future[CacheTold] = asyncio.get_running_loop().create_future()
        self._cache_questions[ask.ask_id] = waiting
        self.send(ask)
        try:
            return await waiting
        finally:
            self._cache_questions.pop(ask.ask_id, None)

    async def apply(self, change: Change | UsePools) -> None:
        """Returns when the worker has acknowledged; the caller sets the bound."""
        waiting = self._unacknowledged[change.change_id] = asyncio.get_running_loop().create_future()
        self.send(change)
        try:
            await waiting
        finally:
            self._unacknowledged.pop(change.change_id, None)

    def end(self, *, grace_s: float) -> None:
        """Ask it to finish what it does and end; one that does not serve yet just ends."""
        if self.is_ready:
            self.send(Drain(grace_s))
        elif self._process.is_alive():
            self._process.terminate()

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()

    def __repr__(self) -> str:
        return f"<Worker {self.number} pid={self._process.pid} {'ready' if self.is_ready else 'not ready'}>"
