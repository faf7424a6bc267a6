"""`/v1/models`: what this gateway serves, as OpenAI lists models."""

from __future__ import annotations

import msgspec

from backends import Pools

from ..callers import Callers
from ..errors import missing_scope, unknown_model
from ..telemetry.timeline import Timeline
from .wire import Reply, Request

PREFIX = "/v1/models"


class Models:
    def __init__(self, *, callers: Callers, pools: Pools, now_s: float) -> None:
        self._callers = callers
        self._pools = pools
        self._created = int(now_s)

    async def answer(self, request: Request, reply: Reply, timeline: Timeline) -> None:
        """All of them, or the one named in the path. Raises ApiError."""
        principal = await self._callers.identify(request, timeline)
        name = request.path.removeprefix(PREFIX).strip("/")
        if not principal.has_scope("models"):
            raise missing_scope("models")
        models = [model for model in self._pools.models() if principal.may_use(model)]
        if not name:
            listing = {"object": "list", "data": [self._described(model) for model in models]}
            await reply.whole(200, msgspec.json.encode(listing))
        elif name in models:
            await reply.whole(200, msgspec.json.encode(self._described(name)))
        else:
            raise unknown_model(name)

    def _described(self, model: str) -> dict[str, str | int]:
        return {"id": model, "object": "model", "created": self._created, "owned_by": "echogate"}
