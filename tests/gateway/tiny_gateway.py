"""A data plane of a few lines, to be run by the real supervisor and workers in tests.

`python -m tests.gateway.tiny_gateway CONFIG [FACTORY]` serves it as `echogate serve` would.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from gateway.host.control import ControlRecord, KeyChanged
from gateway.host.runtime import Asgi, Readiness, Runtime
from gateway.settings.reading import Settings
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.timeline import Timeline


class TinyGateway:
    """GET /facts tells of the worker; GET /stream/N sends N chunks, ten a second, then [DONE]."""

    def __init__(self, runtime: Runtime, metrics: Metrics) -> None:
        self._runtime = runtime
        self.metrics = metrics
        self._changes: list[str] = []
        self._is_draining = False
        self.in_flight = 0
        runtime.on_control(self._on_control)

    def _on_control(self, record: ControlRecord) -> None:
        self._changes.append(record.key_id if isinstance(record, KeyChanged) else str(record))

    @property
    def asgi(self) -> Asgi:
        return self._answer

    def readiness(self) -> Readiness:
        return Readiness("draining" if self._is_draining else "ok")

    def start_draining(self) -> None:
        self._is_draining = True

    def _begin(self, path: str) -> Timeline:
        return Timeline(f"GET {path}", trace_id=1, is_sampled=False)

    def _record(self, timeline: Timeline) -> None:
        self.metrics.count(timeline, exemplar=None)

    async def _answer(self, scope: Any, receive: Any, send: Any) -> None:
        path: str = scope["path"]
        timeline = self._begin(path)
        timeline.endpoint = path
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if path.startswith("/stream/"):
            for number in range(int(path.rpartition("/")[2])):
                await send({"type": "http.response.body", "body": b"%d\n" % number, "more_body": True})
                await asyncio.sleep(0.1)
            body = b"[DONE]\n"
        else:
            body = msgspec.json.encode(
                {
                    "pid": os.getpid(),
                    "worker": self._runtime.worker,
                    "live": self._runtime.live_workers(),
                    "changes": self._changes,
                    "secret": self._runtime.secret.hex(),
                }
            )
        timeline.finish(200)
        self._record(timeline)
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def open_tiny(settings: Settings, runtime: Runtime) -> AsyncIterator[TinyGateway]:
    yield TinyGateway(runtime, Metrics(settings.pools))


def open_broken(settings: Settings, runtime: Runtime) -> NoReturn:
    raise RuntimeError("this data plane cannot start")


if __name__ == "__main__":
    from gateway.supervisor import serve  # not above: workers import this file too

    factory = sys.argv[2] if len(sys.argv) > 2 else "tiny_gateway:open_tiny"
    sys.exit(
        serve(Settings.load(Path(sys.argv[1])), config=Path(sys.argv[1]), factory=f"tests.gateway.{factory}")
    )
