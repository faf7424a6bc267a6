"""Liveness, which depends on nothing, and readiness, which says what is missing and is 200 while requests work."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..host.runtime import Readiness
from .wire import Reply


class Health:
    def __init__(self, readiness: Callable[[], Readiness]) -> None:
        self._readiness = readiness

    async def live(self, reply: Reply) -> None:
        await reply.whole(200, b'{"status":"ok"}')

    async def ready(self, reply: Reply) -> None:
        now = self._readiness()
        body = msgspec.json.encode({"status": now.state, "reasons": now.reasons})
        await reply.whole(200 if now.state in ("ok", "degraded") else 503, body)
