"""A real model server for tests: llama.cpp over SmolLM2-135M, as a process of its own.

The weights are fetched once (93 MB) into the user's cache folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

from gateway.embedded.language_model import fetch_language_model

ALIAS = "smollm2"
_START_S = 60.0


@dataclass(frozen=True)
class Llama:
    port: int
    process: subprocess.Popen[bytes]

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def busy_slots(self) -> int:
        """Requests the server works on now, by its own count."""
        metrics = httpx.get(f"{self.base_url}/metrics", timeout=5.0, trust_env=False).text
        name = "llamacpp:requests_processing "
        return int(float(next(line for line in metrics.splitlines() if line.startswith(name)).split()[1]))


def is_answering(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/health", timeout=2.0, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


@functools.cache
def weights() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-tests"
    root.mkdir(parents=True, exist_ok=True)
    with (root / "weights-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return fetch_language_model(root)


def command(port: int, *, context: int = 2048, embeddings: bool = False) -> list[str]:
    launch = [sys.executable, "-m", "backends.launch.llamacpp", "--port", str(port)]
    launch += ["--model", str(weights()), "--alias", ALIAS, "--context", str(context)]
    return [*launch, "--embeddings"] if embeddings else launch


@contextlib.contextmanager
def running_llama(*, context: int = 2048, embeddings: bool = False) -> Iterator[Llama]:
    """Started and answering; killed at the end if it still runs. Of the context each of four slots has a quarter."""
    port = free_port()
    with subprocess.Popen(
        command(port, context=context, embeddings=embeddings),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            deadline_s = time.monotonic() + _START_S
            while not is_answering(port):
                assert process.poll() is None, f"the server ended with status {process.returncode}"
                assert time.monotonic() < deadline_s, "the server did not answer in time"
                time.sleep(0.05)
            yield Llama(port, process)
        finally:
            process.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
