"""What admins took away stays taken away when the store's master dies: by a replica's word, or made again."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from auth import Authenticator, DisabledKey, StoreDirectory
from tests.clusters import SentinelGroup, running_sentinels

from .admin_api import Admin, running_admin

pytestmark = pytest.mark.full


@pytest.fixture
def group() -> Iterator[SentinelGroup]:
    with running_sentinels() as group:
        yield group


async def is_refused(admin: Admin, key: str) -> bool:
    headers = [(b"authorization", f"Bearer {key}".encode())]
    try:
        await Authenticator(StoreDirectory(admin.store)).authenticate(headers)
    except DisabledKey:
        return True
    return False


async def failed_over(admin: Admin, group: SentinelGroup) -> None:
    before = admin.store.state.server_id
    group.master().kill()
    async with asyncio.timeout(40):
        while not admin.store.is_up or admin.store.state.server_id == before:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_a_key_disabled_just_before_the_master_died_stays_disabled(
    group: SentinelGroup, tmp_path: Path
) -> None:
    async with running_admin(tmp_path, url=group.url) as admin:
        key = await admin.made()
        reply = await admin.api.post(f"/admin/keys/{key['id']}/disable")
        assert (reply.status_code, reply.json()["change"]["replicated"]) == (200, True)
        await failed_over(admin, group)
        assert await is_refused(admin, key["key"])


async def test_what_no_replica_had_confirmed_is_a_202_and_is_made_again_after_the_failover(
    group: SentinelGroup, tmp_path: Path
) -> None:
    async with running_admin(tmp_path, url=group.url) as admin:
        key = await admin.made()
        path = f"/admin/keys/{key['id']}"
        assert (await admin.api.patch(path, json={"name": "known to the replica"})).status_code == 200
        replica = group.replica()
        replica.hang()
        reply = await admin.api.post(f"{path}/disable")
        assert (reply.status_code, reply.json()["change"]["replicated"]) == (202, False)
        group.master().kill()
        replica.kill()  # with what its socket still held, which it would else have heard
        replica.start()
        told: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while not any(record["action"] == "reapply" for record in told):
                await asyncio.sleep(0.1)
                told = (await admin.api.get("/admin/audit")).json().get("data", [])
        assert await is_refused(admin, key["key"])
        assert admin.host.applied[-1].key_id == key["id"]  # type: ignore[union-attr]  # a key it was
