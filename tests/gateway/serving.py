"""Runs a whole `serve` in a process of its own for a test: real supervisor, workers and store, tiny data plane."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import yaml

ROOT = Path(__file__).parents[2]

T = TypeVar("T")


class Serving:
    def __init__(self, folder: Path, config: Path, process: subprocess.Popen[bytes], log: Path) -> None:
        self.folder = folder
        self.config = config
        self.process = process
        self._log = log

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")

    @property
    def holder(self) -> dict[str, Any]:
        return dict(json.loads((self.folder / "serve.lock").read_text()))

    @property
    def data_plane(self) -> str:
        return f"http://{self.holder['data_plane']}"

    @property
    def admin(self) -> str:
        return f"http://{self.holder['admin']}"

    @property
    def admin_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {(self.folder / 'admin.key').read_text().strip()}"}

    def facts(self) -> dict[str, Any]:
        """Of the worker that happens to take a new connection."""
        return dict(json.loads(get(f"{self.data_plane}/facts")))

    def facts_of_all(self, count: int) -> dict[int, dict[str, Any]]:
        """Of `count` workers, by pid."""
        found: dict[int, dict[str, Any]] = {}

        def enough() -> bool:
            facts = self.facts()
            found[facts["pid"]] = facts
            return len(found) >= count

        eventually(enough)
        return found

    def metric(self, name: str) -> float:
        """Sum of a metric's samples over their labels, as the admin plane tells it."""
        page = get(f"{self.admin}/metrics").decode()
        lines = [line for line in page.splitlines() if line.startswith((name + "{", name + " "))]
        return sum(float(line.rpartition(" ")[2]) for line in lines)

    def readiness(self) -> str:
        try:
            return str(json.loads(get(f"{self.admin}/health/ready"))["status"])
        except urllib.error.HTTPError as refusal:  # a 503 tells it as well
            with refusal:
                return str(json.load(refusal)["status"])
        except (OSError, ValueError):
            return "unreachable"

    def until_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, f"serve ended with {self.process.returncode}:\n{self.log}"
            return '"event":"serving"' in self.log

        eventually(is_ready, within_s=60)

    def children(self) -> dict[int, str]:
        return descendants(self.process.pid)

    def stop(self, *, within_s: float = 20) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within_s)


@contextmanager
def serving(
    *,
    workers: int = 1,
    factory: str = "tiny_gateway:open_tiny",
    is_ready: bool = True,
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
    **sections: Any,
) -> Iterator[Serving]:
    """A running `serve` on free ports; its data folder is kept if it was given."""
    place = Path(tempfile.mkdtemp(prefix="eg-"))
    folder = folder or place / "data"
    config = place / "echogate.yaml"
    server = {"bind": "127.0.0.1:0", "workers": workers, **sections.pop("server", {})}
    admin = {"bind": "127.0.0.1:0", **sections.pop("admin", {})}
    config.write_text(yaml.safe_dump({"server": server, "admin": admin, "data_dir": str(folder), **sections}))
    log = place / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.tiny_gateway", str(config), factory],
            cwd=ROOT,
            stderr=stderr,
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | (environment or {}),
            start_new_session=True,
        )
    running = Serving(folder, config, process, log)
    try:
        if is_ready:
            running.until_ready()
        yield running
    finally:
        left = running.children() if process.poll() is None else {}
        process.kill()
        process.wait()
        eventually(lambda: not any(is_alive(pid) for pid in left))
        shutil.rmtree(place)


def get(url: str) -> bytes:
    """Over a new connection; without httpx, which loads certificates for each."""
    with urllib.request.urlopen(url, timeout=10) as reply:
        return bytes(reply.read())


def eventually(condition: Callable[[], bool], *, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        time.sleep(0.01)


def descendants(pid: int) -> dict[int, str]:
    """Living processes below this one, with their command lines."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = entry.joinpath("stat").read_text().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state != "Z":
                parents[int(entry.name)] = int(parent)
    found: dict[int, str] = {}
    below = [pid]
    while below:
        above = below.pop()
        for child, parent in parents.items():
            if parent == above:
                below.append(child)
                found[child] = command_of(child)
    return found


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
