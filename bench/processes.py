"""Owns a benchmark's processes: starts them, tells what CPU time they used, and stops each by its own id."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_READY_S = 30.0
_AGAIN_S = 10.0
_STOP_S = 15.0


class BenchFailed(Exception):
    """The figures would mean nothing. The message says what happened instead."""


def environment(**extra: str) -> dict[str, str]:
    """What processes under test get: bytecode is kept, and no telemetry or setting of the caller's leaks in."""
    mine = {
        name: value
        for name, value in os.environ.items()
        if name != "PYTHONDONTWRITEBYTECODE" and not name.startswith(("OTEL_", "ECHOGATE_"))
    }
    return mine | extra


@contextmanager
def running(
    *command: str, env: Mapping[str, str] | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A Python process for as long as the block runs. Its stdin is a pipe: it ends when that closes, at the latest."""
    with (log or Path(os.devnull)).open("ab") as stderr:
        process = subprocess.Popen(
            [sys.executable, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr if log else None,
            env=dict(env) if env is not None else environment(),
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def port_of(server: subprocess.Popen[bytes]) -> int:
    """The port that a server of `bench.servers` says it listens on."""
    assert server.stdout is not None
    line = server.stdout.readline()
    if not line:
        raise BenchFailed(f"{server.args!r} ended before it listened")
    return int(line)


def result_of(*command: str, plan: Any) -> Any:
    """Run a process that reads a plan from stdin and writes its result to stdout, both JSON."""
    done = subprocess.run(
        [sys.executable, *command],
        input=json.dumps(plan).encode(),
        stdout=subprocess.PIPE,
        env=environment(),
        check=False,
    )
    if done.returncode:
        raise BenchFailed(f"`python {' '.join(command)}` failed")
    return json.loads(done.stdout)


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of these processes with all their threads, ended ones included; to 10 ms."""
    used = 0
    for pid in pids:
        # After the command's closing parenthesis, fields 14 and 15 are the 12th and 13th.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        used += int(fields[11]) + int(fields[12])
    return used * _TICK_S


def descendants(pid: int) -> dict[int, str]:
    """The names of a process and all that it started, by id."""
    parents: dict[int, int] = {}
    names: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                head, _, tail = (entry / "stat").read_text().rpartition(")")
            except OSError:
                continue  # it ended meanwhile
            names[int(entry.name)] = head.partition("(")[2]
            parents[int(entry.name)] = int(tail.split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return {one: names[one] for one in sorted(found)}


def wait_until(
    condition: Any, *, what: str, within_s: float = _READY_S, doing: Callable[[], object] = lambda: None
) -> Any:
    """What the condition gave as soon as it was true. Raises BenchFailed when it is not in time.

    `doing` is what makes it true: done at once, and every ten seconds again, as a busy machine drops work.
    """
    doing()
    began = done = time.monotonic()
    while not (outcome := condition()):
        if time.monotonic() > began + within_s:
            raise BenchFailed(f"{what} within {within_s:.0f} s: it was not")
        if time.monotonic() > done + _AGAIN_S:
            doing()
            done = time.monotonic()
        time.sleep(0.02)
    return outcome
