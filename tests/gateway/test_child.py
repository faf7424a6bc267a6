"""A process of a try-out: what it says is heard, and its end leaves nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest

from gateway.embedded.child import Child, ChildError, running
from tests.gateway.serving import is_alive
from tests.valkey import eventually

READY = re.compile(r"ready at (\d+)")


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


async def test_what_a_process_says_is_found_and_kept(tmp_path: Path) -> None:
    async with running(
        "one", python("print('warming up'); print('ready at 17')"), log=tmp_path / "log"
    ) as child:
        assert (await child.until_says(READY, within_s=20))[1] == "17"
        assert await child.wait() == 0
    assert (tmp_path / "log").read_text() == "warming up\nready at 17\n"


async def test_a_process_that_ends_too_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    code = "import sys; sys.exit('error: no luck')"
    async with running("one", python(code), log=tmp_path / "log") as child:
        with pytest.raises(ChildError, match=r"one ended with status 1: error: no luck"):
            await child.until_says(READY, within_s=20)
        with pytest.raises(ChildError, match="no luck"):
            await child.succeed()


async def test_a_process_that_is_not_ready_in_time_is_told(tmp_path: Path) -> None:
    async with running("one", python("import time; time.sleep(60)"), log=tmp_path / "log") as child:
        with pytest.raises(ChildError, match=r"not ready within 0\.05 s"):
            await child.until_says(READY, within_s=0.05)


async def test_a_process_that_ignores_sigterm_is_killed_with_all_it_started(tmp_path: Path) -> None:
    code = (
        "import signal, subprocess, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "below = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('ready at', below.pid, flush=True); time.sleep(60)"
    )
    async with running("one", python(code), log=tmp_path / "log") as child:
        below = int((await child.until_says(READY, within_s=20))[1])
        await child.stop(within_s=0.05)
        assert not is_alive(child.pid)
        await eventually(lambda: not is_alive(below))


async def test_a_process_ends_with_the_one_that_started_it(tmp_path: Path) -> None:
    code = f"""
import asyncio, pathlib, sys
from gateway.embedded.child import running
async def main():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    async with running("below", command, log=pathlib.Path({str(tmp_path)!r}) / "below.log") as child:
        print("ready at", child.pid, flush=True)
        await asyncio.sleep(60)
asyncio.run(main())
"""
    async with running("above", python(code), log=tmp_path / "log", env=os.environ) as above:
        below = int((await above.until_says(READY, within_s=20))[1])
        above.signal(signal.SIGKILL)
        await eventually(lambda: not is_alive(below))


async def test_its_repr_tells_its_state(tmp_path: Path) -> None:
    async with running("one", python("pass"), log=tmp_path / "log") as child:
        assert isinstance(child, Child)
        await child.wait()
        assert repr(child) == f"<Child one pid={child.pid} status=0>"
