"""The whole admin plane for a test, in this process over a real store; what the supervisor would do is noted down.

async with running_admin(folder) as admin:
    key = await admin.made(tenant="acme")
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from gateway.admin.plane import AdminPlane
from gateway.admin.stored_keys import AdminKeys, Role, mint
from gateway.evidence.desk import CacheTold, Wish
from gateway.host.control import ControlRecord
from gateway.host.data_folder import DataFolder
from gateway.host.runtime import Readiness
from gateway.pools.host import HostPools
from gateway.settings.reading import Settings
from gateway.store.client import StoreClient
from gateway.telemetry.metrics import Metrics
from gateway.telemetry.metrics_merge import Snapshot
from tests.valkey import Valkey, running_valkey

ADMIN_ADDRESS = "192.0.2.7"


@dataclass
class Host:
    """What the supervisor would be."""

    applied: list[ControlRecord] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    ready: Readiness = field(default_factory=lambda: Readiness("ok"))

    async def apply(self, change_id: str, record: ControlRecord) -> list[int]:
        self.applied.append(record)
        return self.late

    async def metrics(self) -> Snapshot:
        return Metrics([]).snapshot()

    async def readiness(self) -> Readiness:
        return self.ready


@dataclass
class Admin:
    api: httpx.AsyncClient
    plane: AdminPlane
    app: ASGIApp
    store: StoreClient
    owner: str
    host: Host
    valkey: Valkey | None = None

    async def made(self, kind: str = "keys", **asked: Any) -> dict[str, Any]:
        body = {"tenant": "acme", **asked} if kind == "keys" else asked
        reply = await self.api.post(f"/admin/{kind}", json=body)
        assert reply.status_code == 201, reply.text
        return dict(reply.json())

    async def key_of(self, role: Role) -> dict[str, str]:
        """Headers with an admin key of that role."""
        record, key = mint(f"a test's {role}", role, at_s=0.0)
        await self.plane.keys.add(record)
        return bearer(key)

    async def audited(self) -> list[dict[str, Any]]:
        return list((await self.api.get("/admin/audit", params={"limit": 1000})).json()["data"])


@asynccontextmanager
async def running_admin(
    folder: Path,
    *,
    url: str | None = None,
    owner: str | None = None,
    settings: Settings | None = None,
    ask_cache: Callable[[Wish], Awaitable[CacheTold | None]] | None = None,
) -> AsyncIterator[Admin]:
    """Over a store of its own, or over the one that `url` names, which may have an `owner`'s key already."""
    async with AsyncExitStack() as stack:
        valkey = None
        if url is None:
            valkey = await stack.enter_async_context(running_valkey())
            url = valkey.url
        store = await stack.enter_async_context(StoreClient.open(url, deadline_s=5.0))
        owner = owner or await _first_key(AdminKeys(store))
        host = Host()
        settings = settings or Settings(data_dir=folder)
        plane = AdminPlane(
            settings,
            DataFolder(folder),
            store,
            apply=host.apply,
            metrics=host.metrics,
            readiness=host.readiness,
            pools=HostPools(settings, store, config=None, fleet=lambda: None, registry=CollectorRegistry()),
            ask_cache=ask_cache,
        )
        app = plane.app()
        await stack.enter_async_context(plane.attending("127.0.0.1:8081"))
        api = await stack.enter_async_context(client(app, owner))
        yield Admin(api, plane, app, store, owner, host, valkey)


@asynccontextmanager
async def client(app: ASGIApp, key: str, address: str = ADMIN_ADDRESS) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app, client=(address, 40_000))
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=bearer(key)) as api:
        yield api


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


async def _first_key(keys: AdminKeys) -> str:
    record, key = mint("the first one", "owner", at_s=0.0)
    assert await keys.add_first(record)
    return key
