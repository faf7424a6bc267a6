"""What admins do is on record: who, what, from where, before and after, and never a secret."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.admin.auditing import Auditor
from gateway.host.data_folder import DataFolder

from .admin_api import ADMIN_ADDRESS, Admin, client, running_admin


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


async def test_every_act_is_on_record_with_what_it_changed(admin: Admin) -> None:
    key = await admin.made(service="web")
    path = f"/admin/keys/{key['id']}"
    await admin.api.patch(path, json={"limits": {"tokens_per_min": 500}})
    await admin.api.post(f"{path}/rotate")
    await admin.api.post(f"{path}/disable")
    await admin.api.post(f"{path}/enable")
    await admin.api.delete(path)
    await admin.made("admin-keys", role="viewer")
    await admin.api.get("/admin/export")
    records = await admin.audited()
    assert [record["action"] for record in records] == [
        "serve", "key.create", "key.update", "key.rotate", "key.disable", "key.enable", "key.delete",
        "admin-key.create", "export",
    ]  # fmt: skip
    assert [record["number"] for record in records] == list(range(1, 10))
    owner = admin.owner.split("-")[1]
    assert {record["actor"] for record in records[1:]} == {f"admin key {owner}"}
    assert {record["source_ip"] for record in records[1:]} == {ADMIN_ADDRESS}
    update = records[2]
    assert (update["target"], update["role"], update["outcome"]) == (f"key {key['id']}", "owner", "done")
    assert update["before"]["limits"]["tokens_per_min"] is None
    assert update["after"]["limits"]["tokens_per_min"] == 500


async def test_no_secret_and_no_hash_of_one_is_on_record(admin: Admin) -> None:
    key = await admin.made()
    rotated = (await admin.api.post(f"/admin/keys/{key['id']}/rotate")).json()
    told = str(await admin.audited())
    for plaintext in (key["key"], rotated["key"], admin.owner):
        assert plaintext.split("-", 2)[2] not in told
    assert "sha256" not in told


async def test_an_act_that_a_role_forbids_is_on_record_and_not_done(admin: Admin) -> None:
    headers = await admin.key_of("viewer")
    reply = await admin.api.post("/admin/keys", json={"tenant": "acme"}, headers=headers)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "permission_denied")
    refused = (await admin.audited())[-1]
    assert (refused["action"], refused["role"], refused["outcome"]) == (
        "POST /admin/keys",
        "viewer",
        "refused",
    )
    assert (await admin.api.get("/admin/keys")).json()["data"] == []


async def test_reading_is_not_on_record(admin: Admin) -> None:
    for path in ("keys", "tenants", "services", "usage", "audit"):
        await admin.api.get(f"/admin/{path}")
    assert [record["action"] for record in await admin.audited()] == ["serve"]


async def test_the_log_is_read_in_pages(admin: Admin) -> None:
    for number in range(4):
        await admin.made("tenants", name=f"t{number}")
    first = (await admin.api.get("/admin/audit", params={"limit": 3})).json()
    assert ([each["number"] for each in first["data"]], first["has_more"], first["next"]) == (
        [1, 2, 3],
        True,
        3,
    )
    rest = (await admin.api.get("/admin/audit", params={"after": 3})).json()
    assert ([each["number"] for each in rest["data"]], rest["has_more"], rest["next"]) == (
        [4, 5],
        False,
        None,
    )


async def test_a_log_nobody_touched_is_intact_and_an_edited_one_is_not(admin: Admin) -> None:
    for number in range(3):
        await admin.made("tenants", name=f"t{number}")
    report = (await admin.api.get("/admin/audit/verify")).json()
    assert (report["is_intact"], report["checked"], report["problems"]) == (True, 4, [])
    await admin.store.execute("XDEL", "eg:{audit}:records", "2-0")
    report = (await admin.api.get("/admin/audit/verify", params={"full": True})).json()
    assert report["is_intact"] is False
    assert report["problems"] == [{"kind": "deleted", "first": 2, "last": 2, "message": "record 2: deleted"}]


async def test_without_the_key_that_wrote_the_log_nothing_is_let_happen(admin: Admin, tmp_path: Path) -> None:
    """A second host whose audit key is another one."""
    assert admin.valkey is not None
    folder = tmp_path / "other"
    folder.mkdir()
    async with running_admin(folder, url=admin.valkey.url, owner=admin.owner) as other:
        reply = await other.api.post("/admin/keys", json={"tenant": "t"})
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "audit_unavailable")
        assert "Put the key back that wrote it" in reply.json()["error"]["message"]
        assert (await other.api.get("/admin/keys")).json()["data"] == []
    assert DataFolder(tmp_path).audit_key() != DataFolder(folder).audit_key()


async def test_the_audit_key_is_for_its_owners_eyes_only(admin: Admin, tmp_path: Path) -> None:
    assert (tmp_path / "audit.key").stat().st_mode & 0o777 == 0o600


async def test_a_burst_of_wrong_admin_keys_is_one_record(admin: Admin) -> None:
    async with client(admin.app, "ega-wrong", address="198.51.100.3") as attacker:
        for _ in range(7):
            assert (await attacker.get("/admin/keys")).status_code == 401
    await admin.plane.record_bursts(now_s=time.time() + 61)
    burst = (await admin.audited())[-1]
    assert (burst["action"], burst["actor"], burst["source_ip"]) == ("auth.failures", *["198.51.100.3"] * 2)
    assert burst["after"]["failures"] == 7


async def test_a_burst_that_workers_saw_is_on_record_with_the_key(admin: Admin) -> None:
    admin.plane.note_failure("198.51.100.4", "abcdefghijkl", 60)
    admin.plane.note_failure("198.51.100.4", "abcdefghijkl", 40)
    await admin.plane.record_bursts(now_s=time.time() + 61)
    burst = (await admin.audited())[-1]
    assert (burst["target"], burst["after"]["failures"]) == ("key abcdefghijkl", 100)


async def test_what_the_log_did_not_take_is_written_once_it_does(admin: Admin) -> None:
    auditor: Auditor = admin.plane.auditor
    assert admin.valkey is not None
    headers = await admin.key_of("viewer")
    await admin.store.execute("CONFIG", "SET", "maxmemory", "1")  # reads go on, and nothing is written
    reply = await admin.api.post("/admin/keys", json={"tenant": "t"}, headers=headers)
    assert reply.status_code == 403
    assert auditor.waiting == 1
    blocked = await admin.api.post("/admin/keys", json={"tenant": "t"})
    assert (blocked.status_code, blocked.json()["error"]["code"]) == (503, "audit_unavailable")
    await admin.store.execute("CONFIG", "SET", "maxmemory", "0")
    async with asyncio.timeout(10):
        while auditor.waiting:  # noqa: ASYNC110 - it writes by itself every second
            await asyncio.sleep(0.02)
    assert [record["outcome"] for record in await admin.audited()] == ["done", "refused"]
