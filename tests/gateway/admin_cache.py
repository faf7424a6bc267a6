"""A gateway and the admin plane of its deployment, for tests of what admins do with the cache."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from gateway.settings.reading import Settings
from gateway.settings.sections import AdminSettings
from tests.cache.prepared import prepared_model
from tests.gateway.admin_api import Admin, running_admin
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream

SEMANTIC: dict[str, Any] = {"embedder": {"model": str(prepared_model())}, "semantic_deadline_ms": 5000}
TEXT = "Which pills does Zyxgard take?"


@dataclass
class Both:
    gateway: RunningGateway
    admin: Admin

    async def asked(self, text: str, **fields: Any) -> httpx.Response:
        """And stored."""
        reply = await self.gateway.chat(text, **fields)
        assert reply.status_code == 200, reply.text
        await self.gateway.idle()
        return reply

    async def has(self, text: str, **fields: Any) -> bool:
        headers = {"cache-control": "only-if-cached"} | fields.pop("headers", {})
        return (await self.gateway.chat(text, headers=headers, **fields)).status_code == 200

    async def post(
        self, path: str, body: dict[str, Any] | None = None, *, status: int = 200
    ) -> dict[str, Any]:
        reply = await self.admin.api.post(path, json=body)
        assert reply.status_code == status, reply.text
        return dict(reply.json())

    async def get(self, path: str, *, status: int = 200, **params: Any) -> dict[str, Any]:
        reply = await self.admin.api.get(path, params=params)
        assert reply.status_code == status, reply.text
        return dict(reply.json())

    async def remove(self, **chosen: Any) -> dict[str, Any]:
        return await self.post("/admin/cache/invalidate", {"dry_run": False, **chosen})


@asynccontextmanager
async def both(folder: Path, *, shows_texts: bool = False, **cache: Any) -> AsyncIterator[Both]:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        settings = Settings(data_dir=folder, admin=AdminSettings(shows_texts=shows_texts))
        async with running_admin(
            folder, url=gateway.valkey.url, settings=settings, ask_cache=gateway.ask_cache
        ) as admin:
            yield Both(gateway, admin)
