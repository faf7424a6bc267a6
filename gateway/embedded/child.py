"""Owns a process of a try-out or a test: its output in a log file, its readiness, and an end that leaves nothing."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from .tied import tied

_LINE_LIMIT = 1 << 20
_LAST_LINES = 5


class ChildError(Exception):
    """A process ended, or did not do in time what was waited for. The message has its last lines."""


class Child:
    """A running process, made by `running`. It gets SIGTERM if this process dies."""

    def __init__(self, name: str, process: asyncio.subprocess.Process, log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log
        self._last: deque[str] = deque(maxlen=_LAST_LINES)
        self._awaited: tuple[re.Pattern[str], asyncio.Future[re.Match[str]]] | None = None
        self._reading = asyncio.create_task(self._read(), name=f"read the output of {name}")

    def __repr__(self) -> str:
        return f"<Child {self.name} pid={self.pid} status={self._process.returncode}>"

    @property
    def pid(self) -> int:
        return self._process.pid

    async def until_says(self, what: re.Pattern[str], *, within_s: float) -> re.Match[str]:
        """Where `what` is found in a line of output from now on. Raises ChildError."""
        found: asyncio.Future[re.Match[str]] = asyncio.get_running_loop().create_future()
        self._awaited = (what, found)
        await asyncio.wait((found, self._reading), timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
        if found.done():
            return found.result()
        if self._reading.done():
            raise ChildError(f"{self.name} ended with status {await self._process.wait()}: {self._tail()}")
        raise ChildError(f"{self.name} was not ready within {within_s:g} s: {self._tail()}")

    async def wait(self) -> int:
        """Its exit status (negative: the signal), once it and its output have ended."""
        await asyncio.wait((self._reading,))
        return await self._process.wait()

    async def succeed(self) -> None:
        """Wait until it ends. Raises ChildError if its status is not 0."""
        if status := await self.wait():
            raise ChildError(f"{self.name} ended with status {status}: {self._tail()}")

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def stop(self, *, within_s: float = 10.0) -> None:
        """Ask it to end; kill it and whatever it started when it does not in time."""
        self.signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(within_s):
                await self._process.wait()
        except TimeoutError:
            pass  # the next line is for it, too
        finally:
            with suppress(ProcessLookupError):  # the group is its own, and gone if all of it ended
                os.killpg(self._process.pid, signal.SIGKILL)
            await self._process.wait()
            await asyncio.wait((self._reading,), timeout=1.0)
            self._reading.cancel()

    async def _read(self) -> None:
        output = self._process.stdout
        assert output is not None  # it was asked for
        with self._log.open("ab") as log:
            async for raw in output:
                log.write(raw)
                log.flush()
                line = raw.decode("utf-8", "replace").rstrip()
                self._last.append(line)
                self._compare(line)

    def _compare(self, line: str) -> None:
        if self._awaited is not None:
            what, found = self._awaited
            if not found.done() and (match := what.search(line)):
                found.set_result(match)

    def _tail(self) -> str:
        return "\n".join(self._last) or "it said nothing"


@asynccontextmanager
async def running(
    name: str, command: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """The process for as long as the block lasts. `command[0]` is an absolute path; `env` None: this one's."""
    process = await asyncio.create_subprocess_exec(
        *tied(command, by=signal.SIGTERM),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=env,
        limit=_LINE_LIMIT,
        # Ctrl-C in a terminal goes to its whole process group; who started this one decides when it ends.
        start_new_session=True,
    )
    child = Child(name, process, log)
    try:
        yield child
    finally:
        await child.stop()
