"""The embedded store: starts, keeps its data, stops, and never outlives its parent."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.embedded import StoreProcess, StoreProcessError
from gateway.store.client import StoreClient
from tests.valkey import eventually

STARTS_A_STORE = """
import asyncio, sys
from pathlib import Path
from gateway.embedded import StoreProcess

async def main():
    process = StoreProcess(Path(sys.argv[1]))
    await process.start()
    print(process.pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="eg-"))
    yield path
    shutil.rmtree(path)


def is_alive(pid: int) -> bool:
    """Zombies do not count: whoever inherits them may be slow to collect them."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_store_dies_with_a_killed_parent(folder: Path) -> None:
    parent = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", STARTS_A_STORE, str(folder)), stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdout is not None
    pid = int(await parent.stdout.readline())
    assert is_alive(pid)

    parent.kill()
    await parent.communicate()

    await eventually(lambda: not is_alive(pid))


async def test_data_is_there_again_after_a_crash(folder: Path) -> None:
    async with StoreProcess(folder) as process:
        assert process.pid is not None
        url = await _set_and_get_url(process, folder)
        os.kill(process.pid, signal.SIGKILL)
        assert await process.wait() == -signal.SIGKILL

        assert await process.start() == url
        async with StoreClient.open(url) as store:
            assert await store.execute("GET", "key") == b"value"


async def _set_and_get_url(process: StoreProcess, folder: Path) -> str:
    url = f"unix://{folder}/store/valkey.sock"
    async with StoreClient.open(url) as store:
        await store.execute("SET", "key", "value")
    return url


async def test_only_its_user_may_enter_and_nothing_is_evicted(folder: Path) -> None:
    async with StoreProcess(folder), StoreClient.open(f"unix://{folder}/store/valkey.sock") as store:
        assert stat.S_IMODE((folder / "store" / "valkey.sock").stat().st_mode) == 0o700
        assert stat.S_IMODE((folder / "store").stat().st_mode) == 0o700
        assert await store.execute("CONFIG", "GET", "maxmemory-policy") == [
            b"maxmemory-policy",
            b"noeviction",
        ]
        assert await store.execute("CONFIG", "GET", "port") == [b"port", b"0"]


async def test_long_data_folder_gets_a_short_private_socket(folder: Path) -> None:
    process = StoreProcess(folder / ("long" * 30) / "data")
    url = await process.start()
    socket = Path(url.removeprefix("unix://"))
    try:
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        async with StoreClient.open(url) as store:
            assert await store.execute("PING") == b"PONG"
    finally:
        await process.stop()
    assert not socket.parent.exists()


async def test_store_that_cannot_start_says_why(folder: Path) -> None:
    broken = folder / "store" / "appendonlydir"
    broken.mkdir(parents=True)
    (broken / "appendonly.aof.manifest").write_text("no manifest\n")

    with pytest.raises(StoreProcessError, match=r"(?s)ended with status 1.*manifest"):
        await StoreProcess(folder).start()


async def test_hung_store_is_killed_when_asked_to_stop(folder: Path) -> None:
    process = StoreProcess(folder, stop_timeout_s=0.1)
    await process.start()
    assert process.pid is not None
    os.kill(process.pid, signal.SIGSTOP)

    await process.stop()

    assert await process.wait() == -signal.SIGKILL


async def test_cancelled_start_leaves_no_process(folder: Path) -> None:
    process = StoreProcess(folder)
    starting = asyncio.create_task(process.start())
    await eventually(lambda: process.pid is not None)
    pid = process.pid
    assert pid is not None

    starting.cancel()
    await asyncio.wait([starting])

    assert not is_alive(pid)


async def test_second_start_is_refused(folder: Path) -> None:
    async with StoreProcess(folder) as process:
        with pytest.raises(StoreProcessError, match="already runs"):
            await process.start()
