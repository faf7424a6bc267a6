"""A private real Valkey for a test: on a unix socket in its own folder, which can hang, die and come back."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.embedded import StoreProcess
from gateway.store.client import StoreClient


class Valkey:
    """Started by `running_valkey`. After `kill` or `stop`, `start` brings it back on the same data."""

    def __init__(self, process: StoreProcess, folder: Path) -> None:
        self._process = process
        self.folder = folder / "store"  # its data
        self.url = ""

    @property
    def pid(self) -> int | None:
        return self._process.pid

    async def start(self) -> None:
        self.url = await self._process.start()

    async def stop(self) -> None:
        """End it in an orderly way."""
        self.resume()
        await self._process.stop()

    async def kill(self) -> None:
        """End it like a crash."""
        self._signal(signal.SIGKILL)
        await self._process.wait()

    def hang(self) -> None:
        """Keep its connections open and answer nothing until `resume`."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.pid is not None:
            os.kill(self.pid, number)


@asynccontextmanager
async def running_valkey() -> AsyncIterator[Valkey]:
    # Not pytest's tmp_path: its length may exceed what a socket path can hold.
    folder = Path(tempfile.mkdtemp(prefix="eg-"))
    server = Valkey(StoreProcess(folder), folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()  # quicker than an orderly end, and nobody needs the data
        shutil.rmtree(folder)


@asynccontextmanager
async def connected(url: str, *, deadline_s: float = 2.0) -> AsyncIterator[StoreClient]:
    """A client of the store there, once it is up; patient, for busy machines."""
    async with StoreClient.open(url, deadline_s=deadline_s) as client:
        await eventually(lambda: client.is_up)
        yield client


async def eventually(condition: Callable[[], bool], *, within_s: float = 5.0) -> None:
    """Return as soon as the condition holds; fail the test when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.002)
