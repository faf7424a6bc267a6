"""The tiny data plane with real telemetry, for tests of what leaves a worker process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from gateway.host.runtime import Runtime
from gateway.settings.reading import Settings
from gateway.telemetry.telemetry import Telemetry
from gateway.telemetry.timeline import Timeline

from .tiny_gateway import TinyGateway


class TracedGateway(TinyGateway):
    def __init__(self, runtime: Runtime, telemetry: Telemetry) -> None:
        super().__init__(runtime, telemetry.metrics)
        self._telemetry = telemetry

    def _begin(self, path: str) -> Timeline:
        return self._telemetry.begin(f"GET {path}", [])

    def _record(self, timeline: Timeline) -> None:
        self._telemetry.record(timeline)


@asynccontextmanager
async def open_traced(settings: Settings, runtime: Runtime) -> AsyncIterator[TracedGateway]:
    telemetry = Telemetry.start(settings, worker=runtime.worker)
    try:
        yield TracedGateway(runtime, telemetry)
    finally:
        await asyncio.to_thread(telemetry.shutdown, 2.0)
