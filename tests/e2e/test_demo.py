"""The demo as a newcomer runs it: the tour comes out as named, twice, and whenever it is stopped nothing is left."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.embedded.child import Child, running
from gateway.embedded.language_model import FILE
from tests.backends.llama import weights
from tests.cache.prepared import prepared_model
from tests.valkey import eventually

pytestmark = pytest.mark.full

_MARK = "ECHO_DEMO_TEST"  # a variable that the demo hands on to everything it starts


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    """A data folder with the models in place, so that no test downloads them."""
    (tmp_path / "models" / "smollm2").mkdir(parents=True)
    (tmp_path / "models" / "smollm2" / FILE).symlink_to(weights())
    (tmp_path / "models" / "all-minilm-l6-v2").symlink_to(prepared_model())
    return tmp_path


@asynccontextmanager
async def demo(data_dir: Path, *options: str) -> AsyncIterator[tuple[Child, str]]:
    mark = secrets.token_hex(8)
    command = [sys.executable, "-m", "gateway.embedded.demo", "--data-dir", str(data_dir), *options]
    log = data_dir / "demo.log"
    async with running("the demo", command, log=log, env=os.environ | {_MARK: mark}) as child:
        yield child, mark


def marked(mark: str) -> list[str]:
    """The command lines of living processes that inherited the mark."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if f"{_MARK}={mark}".encode() in (entry / "environ").read_bytes():
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode())
            except OSError:
                continue  # it ended, or is not ours
    return found


async def test_the_tour_comes_out_as_named_also_with_the_data_folder_kept(data_dir: Path) -> None:
    for _ in range(2):
        async with demo(data_dir, "--once") as (child, mark):
            assert await child.wait() == 0
        said = (data_dir / "demo.log").read_text()
        outcomes = re.findall(r"^ +(MISS|HIT-EXACT|HIT-SEMANTIC) +[\d.]+ ms", said, re.MULTILINE)
        assert outcomes[-5:] == ["MISS", "HIT-EXACT", "HIT-SEMANTIC", "MISS", "HIT-EXACT"]
        assert "cache.embed" in said
        assert marked(mark) == []


async def test_it_serves_until_ctrl_c_and_then_ends_well(data_dir: Path) -> None:
    async with demo(data_dir) as (child, mark):
        await child.until_says(re.compile("Serving until Ctrl-C"), within_s=90)
        child.signal(signal.SIGINT)
        assert await child.wait() == 0
        assert marked(mark) == []


@pytest.mark.parametrize(
    "moment", ["language model", "llama.cpp servers", "embedding model", "echogate serve", "MISS"]
)
async def test_ctrl_c_leaves_no_process_behind(data_dir: Path, moment: str) -> None:
    async with demo(data_dir) as (child, mark):
        await child.until_says(re.compile(moment), within_s=90)
        child.signal(signal.SIGINT)
        async with asyncio.timeout(20):
            assert await child.wait() == 130
        assert marked(mark) == []


async def test_what_it_started_ends_also_when_it_is_killed(data_dir: Path) -> None:
    async with demo(data_dir) as (child, mark):
        await child.until_says(re.compile("HIT-EXACT"), within_s=90)
        child.signal(signal.SIGKILL)
        await eventually(lambda: marked(mark) == [], within_s=15)


async def test_a_port_that_is_taken_is_named(data_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        async with demo(data_dir, "--once", "--port", str(port)) as (child, mark):
            assert await child.wait() == 1
        assert marked(mark) == []
    assert f"cannot listen on 127.0.0.1:{port} (server.bind)" in (data_dir / "demo.log").read_text()
