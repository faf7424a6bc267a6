"""A whole deployment for a test: the real command `echogate serve` as a process, with its own store and workers.

async with deployed(folder, upstream.base_url, workers=4) as echogate:
    made = await echogate.create_key()
    reply = await echogate.ask("What is a kettle for?", key=made["key"])
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.embedded.child import Child, running
from tests.cache.prepared import prepared_model

_READY_S = 60.0


@dataclass(frozen=True)
class Deployment:
    child: Child
    config: Path
    data_dir: Path
    url: str
    admin: httpx.AsyncClient

    async def create_key(self, tenant: str = "acme") -> dict[str, Any]:
        reply = await self.admin.post("/admin/keys", json={"tenant": tenant})
        return dict(reply.raise_for_status().json())

    async def ask(self, text: str, *, key: str, headers: dict[str, str] | None = None) -> httpx.Response:
        """On a connection of its own, which any of the workers may take."""
        body = {"model": "m1", "temperature": 0, "messages": [{"role": "user", "content": text}]}
        async with httpx.AsyncClient(base_url=self.url, timeout=60, trust_env=False) as client:
            return await client.post(
                "/v1/chat/completions",
                json=body,
                headers={"authorization": f"Bearer {key}"} | (headers or {}),
            )

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of the samples that have these labels."""
        page = (await self.admin.get("/metrics")).raise_for_status().text
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(
            float(line.rpartition(" ")[2])
            for line in page.splitlines()
            if line.startswith((name + "{", name + " ")) and all(pair in line for pair in wanted)
        )

    async def wait_ready(self) -> None:
        """Until all workers serve."""

        async def is_ready() -> bool:
            return bool((await self.admin.get("/health/ready")).json()["status"] == "ok")

        await until(is_ready, within_s=30)


@asynccontextmanager
async def deployed(
    data_dir: Path, upstream: str, *, workers: int, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Deployment]:
    """Serving on free ports; the data folder is kept. Told to stop at the end, and waited for.

    `variables` are of its environment, which has none of ours of OpenTelemetry and Echogate.
    """
    config = data_dir.parent / "echogate.yaml"
    settings = {
        "pools": {"m1": [upstream]},
        "data_dir": str(data_dir),
        "server": {"bind": "127.0.0.1:0", "workers": workers, "grace_s": 2},
        "admin": {"bind": "127.0.0.1:0"},
        "store": {"deadline_ms": 5000},  # several workers and their store on two cores
        "cache": {
            "semantic_deadline_ms": 5000,
            "embedder": {"model": str(prepared_model())},
            "audits": {"served_share": 0},  # at random a backend would be asked once more
        },
    }
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(
            running(
                "echogate serve",
                serve(config),
                log=data_dir.parent / "serve.log",
                env=environment() | dict(variables or {}),
            )
        )
        said = await child.until_says(re.compile(r'^{.*"event":"serving".*}$'), within_s=_READY_S)
        facts = json.loads(said[0])
        admin_key = (data_dir / "admin.key").read_text(encoding="ascii").strip()
        admin = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=facts["admin"],
                headers={"authorization": f"Bearer {admin_key}"},
                timeout=20,
                trust_env=False,
            )
        )
        yield Deployment(child, config, data_dir, facts["data_plane"], admin)


def serve(config: Path) -> list[str]:
    return [sys.executable, "-m", "gateway", "serve", "--config", str(config)]


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith(("ECHOGATE_", "OTEL_"))}


async def until(condition: Callable[[], Awaitable[bool]], *, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < deadline, "the condition did not come true in time"
        await asyncio.sleep(0.01)
