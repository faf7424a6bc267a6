"""A real vLLM as a process of a test: its own scheduler, KV memory, metrics, and ways to die.

It takes most of a minute to start, three times over for the imports of its three processes.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.backends.llama import free_port
from tests.gateway.serving import descendants

from .model import write_tiny_model

MODEL = "tiny"
CONTEXT = 1024
_START_S = 240.0
_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "TORCHDYNAMO_DISABLE": "1",  # else the first request with logprobs compiles for half a minute
    "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
}


@dataclass(frozen=True)
class Vllm:
    port: int
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def engine(self) -> int:
        """The pid of the process that schedules; the server's own is `process.pid`."""
        (pid,) = (pid for pid, command in descendants(self.process.pid).items() if "EngineCore" in command)
        return pid

    def metric(self, name: str) -> float:
        page = httpx.get(f"{self.base_url}/metrics", timeout=10.0, trust_env=False).text
        return sum(
            float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name + "{")
        )

    @property
    def open_requests(self) -> float:
        return self.metric("vllm:num_requests_running") + self.metric("vllm:num_requests_waiting")

    def has_ended(self) -> bool:
        return self.process.poll() is not None


@contextmanager
def running_vllm(python: Path, *, folder: Path, traces: str) -> Iterator[Vllm]:
    """Answering, with room for four whole contexts; at the end nothing of it is left."""
    model = write_tiny_model(folder / "tiny")
    port = free_port()
    log = folder / f"vllm-{port}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            _command(python, model, port, traces),
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"} | _ENVIRONMENT,
            start_new_session=True,
        )
    server = Vllm(port, process, log)
    try:
        _await_answer(server)
        yield server
    finally:
        # The whole group: an API server that is killed leaves its engine and worker behind.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _command(python: Path, model: Path, port: int, traces: str) -> list[str]:
    # Not `vllm serve`: the command looks for metadata that the CPU build does not bring.
    return [
        *(str(python), "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", str(model), "--load-format", "dummy", "--served-model-name", MODEL),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "float32", "--max-model-len", str(CONTEXT), "--max-num-seqs", "8", "--enforce-eager"),
        *("--kv-cache-memory-bytes", str(4 << 20)),
        *("--enable-server-load-tracking", "--enable-request-id-headers"),
        *("--scheduling-policy", "priority"),
        *("--otlp-traces-endpoint", f"{traces}/v1/traces"),
    ]


def _await_answer(server: Vllm) -> None:
    deadline_s = time.monotonic() + _START_S
    while True:
        assert not server.has_ended(), f"vLLM ended:\n{server.log.read_text(errors='replace')[-3000:]}"
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.base_url}/health", timeout=5.0, trust_env=False).status_code == 200:
                return
        assert time.monotonic() < deadline_s, f"vLLM did not answer within {_START_S:g} s"
        time.sleep(0.25)


@asynccontextmanager
async def slowed(server: Vllm) -> AsyncIterator[None]:
    """The engine runs a seventh of the time: on a quick machine an answer is whole before its first word arrives."""
    engine = server.engine

    async def hold_back() -> None:
        while True:
            os.kill(engine, signal.SIGSTOP)
            await asyncio.sleep(0.06)
            os.kill(engine, signal.SIGCONT)
            await asyncio.sleep(0.01)

    holding = asyncio.create_task(hold_back())
    try:
        yield
    finally:
        holding.cancel()
        await asyncio.wait([holding])
        with suppress(ProcessLookupError):
            os.kill(engine, signal.SIGCONT)
