"""Decides when a snapshot of a process's indexes is written, and by which process of a host.

One holds the lock and writes, now and then where anything has changed, and at an orderly end; when it dies, another
takes its place. All read the same file when they start.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from ..index import Space, Spaces
from .follower import Follower
from .sealed_blocks import Owner
from .snapshot_file import Contents, Snapshot, read, writing

_LEAST_S = 20.0


class _Abandoned(Exception):
    """The process ends, or writing took too long."""


class Snapshots:
    """`every_s`: the least between two. `at_end_s`: what the last one may take, less than a process is given to end.
    `told` hears what became of each attempt: "written", or an error's name.
    """

    def __init__(
        self,
        folder: Path,
        owner: Owner,
        *,
        every_s: float,
        at_end_s: float = 2.0,
        told: Callable[[str], None] = lambda _: None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._folder = folder
        self.path = folder / "index.snapshot"
        self._owner = owner
        self._every_s = every_s
        self._at_end_s = at_end_s
        self._told = told
        self._wall = wall
        self._lock: int | None = None
        self._written: object = None  # the places of the last one

    async def read(self) -> Snapshot:
        """Raises `SnapshotRefused` where there is none to start from, and nothing else for what is in the file."""
        return await asyncio.to_thread(read, self.path, self._owner)

    @asynccontextmanager
    async def kept(self, spaces: Spaces, follower: Follower) -> AsyncIterator[None]:
        """Written for as long as the block runs, and once more at its end."""
        keeping = asyncio.create_task(self._keep(spaces, follower), name="write snapshots")
        try:
            yield
        finally:
            keeping.cancel()
            await asyncio.wait((keeping,))
            if self._take_lock():
                await self._write(spaces, follower, within_s=self._at_end_s)
            self._release()

    async def _keep(self, spaces: Spaces, follower: Follower) -> None:
        await follower.caught_up.wait()
        while True:
            await asyncio.sleep(self._every_s)
            if self._take_lock():
                await self._write(spaces, follower, within_s=max(_LEAST_S, self._every_s))

    async def _write(self, spaces: Spaces, follower: Follower, *, within_s: float) -> None:
        # Before the spaces: what changes while they are copied is in the streams behind these places, and does no harm
        # if it is applied twice.
        places = follower.places
        if places is None or places == self._written:
            return
        contents = Contents(places, follower.shards, self._wall())
        stop = threading.Event()
        writing = asyncio.ensure_future(asyncio.to_thread(self._write_file, list(spaces), contents, stop))
        try:
            async with asyncio.timeout(within_s):
                await asyncio.shield(writing)
        except (OSError, _Abandoned, TimeoutError) as error:
            self._told(type(error).__name__.lstrip("_"))
        else:
            self._written = places
            self._told("written")
        finally:
            stop.set()  # the thread ends at the next megabyte
            await asyncio.wait((writing,))

    def _write_file(self, spaces: Iterable[Space], contents: Contents, stop: threading.Event) -> None:
        def pause() -> None:
            if stop.is_set():
                raise _Abandoned
            time.sleep(0)  # the loop may go on

        with writing(self.path, self._owner, contents, pause=pause) as writer:
            for space in spaces:
                pause()
                writer.add(space.freeze())

    def _take_lock(self) -> bool:
        if self._lock is not None:
            return True
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._told(type(error).__name__)
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _release(self) -> None:
        if self._lock is not None:
            os.close(self._lock)  # which unlocks
            self._lock = None
