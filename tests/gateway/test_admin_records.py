"""Tenants, services and keys by the admin API: made, found, changed, switched, deleted, and told to the workers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from auth import Authenticator, DisabledKey, InvalidKey, Principal, StoreDirectory
from gateway.host.control import KeyChanged, TenantChanged

from .admin_api import Admin, running_admin


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


async def login(admin: Admin, key: str) -> Principal:
    """As a worker would see it that has not seen the key before."""
    headers = [(b"authorization", f"Bearer {key}".encode())]
    return await Authenticator(StoreDirectory(admin.store)).authenticate(headers)


async def test_a_new_key_works_and_is_shown_once(admin: Admin) -> None:
    key = await admin.made(service="search", name="for the search team")
    assert key["key"].startswith(f"eg-{key['id']}-")
    (listed,) = (await admin.api.get("/admin/keys")).json()["data"]
    assert listed == {name: value for name, value in key.items() if name != "key"}
    assert (listed["tenant"], listed["service"], listed["name"]) == ("acme", "search", "for the search team")
    assert (await login(admin, key["key"])).key_id == key["id"]


async def test_what_is_not_said_of_a_new_keys_limits_is_as_configured(admin: Admin) -> None:
    def said(key: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in key["limits"].items() if value is not None}

    assert said(await admin.made()) == {"requests_per_s": 100, "burst": 500}
    more = await admin.made(limits={"tokens_per_min": 1000})
    assert said(more) == {"requests_per_s": 100, "burst": 500, "tokens_per_min": 1000}
    assert said(await admin.made(limits={"requests_per_s": None})) == {}


async def test_a_key_makes_its_service_and_tenant(admin: Admin) -> None:
    await admin.made(tenant="t1", service="s1")
    assert (await admin.api.get("/admin/services/t1/s1")).status_code == 200
    assert (await admin.api.get("/admin/tenants/t1")).json()["name"] == "t1"


async def test_what_is_there_already_is_not_made_again(admin: Admin) -> None:
    await admin.made("tenants", name="acme")
    reply = await admin.api.post("/admin/tenants", json={"name": "acme"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")


async def test_an_update_changes_what_it_names_and_null_takes_away(admin: Admin) -> None:
    key = await admin.made(metadata={"team": "a", "cost": "1"}, policy={"models": ["m*"]})
    asked = {
        "limits": {"tokens_per_min": 500, "burst": 50},
        "metadata": {"team": "b", "cost": None},
        "policy": {"cache_mode": "exact"},
    }
    changed = (await admin.api.patch(f"/admin/keys/{key['id']}", json=asked)).json()
    assert changed["limits"] | {"burst": 50} == changed["limits"]
    assert (changed["limits"]["requests_per_s"], changed["limits"]["tokens_per_min"]) == (100, 500)
    assert changed["metadata"] == {"team": "b"}
    assert (changed["policy"]["models"], changed["policy"]["cache_mode"]) == (["m*"], "exact")
    asked = {"limits": {"requests_per_s": None}, "policy": {"models": None}}
    changed = (await admin.api.patch(f"/admin/keys/{key['id']}", json=asked)).json()
    assert (changed["limits"]["requests_per_s"], changed["limits"]["burst"]) == (None, None)
    assert changed["policy"]["models"] is None


async def test_an_expiry_can_be_set_and_taken_away(admin: Admin) -> None:
    key = await admin.made(expires_at="2190-01-01T00:00:00+01:00")
    assert key["expires_at"] == "2189-12-31T23:00:00Z"
    path = f"/admin/keys/{key['id']}"
    assert (await admin.api.patch(path, json={"name": "x"})).json()["expires_at"] == key["expires_at"]
    assert (await admin.api.patch(path, json={"expires_at": None})).json()["expires_at"] is None


async def test_a_key_shows_what_it_inherits(admin: Admin) -> None:
    await admin.made("tenants", name="acme", policy={"models": ["m1"], "scopes": ["chat", "models"]})
    await admin.made("services", tenant="acme", name="web", policy={"cache_scope": "service"})
    key = await admin.made(service="web", policy={"models": ["m2"]})
    effective = (await admin.api.get(f"/admin/keys/{key['id']}")).json()["effective"]
    assert effective == {
        "models": ["m2"],
        "scopes": ["chat", "models"],
        "cache_scope": "service",
        "cache_mode": "semantic",
        "shared_pool": False,
        "priority": "normal",
    }


async def test_rotation_lets_both_secrets_work_for_a_while(admin: Admin) -> None:
    key = await admin.made()
    rotated = (await admin.api.post(f"/admin/keys/{key['id']}/rotate")).json()
    assert rotated["key"] != key["key"]
    assert rotated["old_secret_ends_at"] is not None
    assert (await login(admin, rotated["key"])).warnings == ()
    (warning,) = (await login(admin, key["key"])).warnings
    assert warning.kind == "secret-was-rotated"


async def test_rotation_without_grace_ends_the_old_secret(admin: Admin) -> None:
    key = await admin.made()
    rotated = (await admin.api.post(f"/admin/keys/{key['id']}/rotate", json={"grace_s": 0})).json()
    await login(admin, rotated["key"])
    with pytest.raises(InvalidKey):
        await login(admin, key["key"])


async def test_disabled_keys_services_and_tenants_refuse_and_can_be_enabled(admin: Admin) -> None:
    key = await admin.made(service="web")
    for path in (f"keys/{key['id']}", "services/acme/web", "tenants/acme"):
        disabled = (await admin.api.post(f"/admin/{path}/disable")).json()
        assert disabled["disabled_at"] is not None
        assert disabled["change"]["replicated"] is True
        with pytest.raises(DisabledKey):
            await login(admin, key["key"])
        assert (await admin.api.post(f"/admin/{path}/enable")).json()["disabled_at"] is None
        await login(admin, key["key"])


async def test_disabling_twice_keeps_the_first_moment(admin: Admin) -> None:
    path = f"/admin/keys/{(await admin.made())['id']}/disable"
    first = (await admin.api.post(path)).json()
    assert (await admin.api.post(path)).json()["disabled_at"] == first["disabled_at"]


async def test_every_change_is_told_to_the_workers_and_names_the_late(admin: Admin) -> None:
    key, admin.host.late = await admin.made(service="web"), [3]
    path = f"/admin/keys/{key['id']}"
    change = (await admin.api.patch(path, json={"name": "x"})).json()["change"]
    assert change == {"replicated": True, "id": change["id"], "not_acknowledged_by": [3]}
    assert change["id"] is not None
    await admin.api.post(f"{path}/rotate")
    await admin.api.post(f"{path}/disable")
    await admin.api.delete(path)
    await admin.api.patch("/admin/services/acme/web", json={})
    await admin.api.patch("/admin/tenants/acme", json={})
    assert admin.host.applied == [KeyChanged(key["id"])] * 4 + [TenantChanged("acme")] * 2


async def test_what_others_belong_to_is_not_deleted(admin: Admin) -> None:
    key = await admin.made(service="web")
    for path in ("tenants/acme", "services/acme/web"):
        assert (await admin.api.delete(f"/admin/{path}")).status_code == 409
    for path in (f"keys/{key['id']}", "services/acme/web", "tenants/acme"):
        deleted = await admin.api.delete(f"/admin/{path}")
        assert deleted.json()["deleted"] is True
        assert (await admin.api.get(f"/admin/{path}")).status_code == 404


async def test_lists_come_in_pages(admin: Admin) -> None:
    made = [(await admin.made(service=f"s{number}"))["id"] for number in range(5)]
    found, after = [], None
    for _ in range(3):
        page = (
            await admin.api.get("/admin/keys", params={"limit": 2} | ({"after": after} if after else {}))
        ).json()
        found += [key["id"] for key in page["data"]]
        after = page["next"]
        assert page["has_more"] is (after is not None)
    assert found == made[::-1]
    services = (await admin.api.get("/admin/services", params={"tenant": "acme", "limit": 3})).json()
    assert [service["name"] for service in services["data"]] == ["s0", "s1", "s2"]
    rest = (
        await admin.api.get("/admin/services", params={"tenant": "acme", "after": services["next"]})
    ).json()
    assert [service["name"] for service in rest["data"]] == ["s3", "s4"]


async def test_keys_are_found_by_tenant_service_state_and_name(admin: Admin) -> None:
    one = await admin.made(service="web", name="the search robot")
    two = await admin.made(service="web", name="another")
    await admin.made(tenant="other", service="web")
    await admin.api.post(f"/admin/keys/{two['id']}/disable")

    async def found(**params: str) -> list[str]:
        return [key["id"] for key in (await admin.api.get("/admin/keys", params=params)).json()["data"]]

    assert await found(tenant="acme") == [two["id"], one["id"]]
    assert await found(tenant="acme", service="web", state="active") == [one["id"]]
    assert await found(state="disabled") == [two["id"]]
    assert await found(name="search") == [one["id"]]
    refused = await admin.api.get("/admin/keys", params={"service": "web"})
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        400,
        "A service needs its tenant named.",
    )


async def test_keys_move_to_another_deployment_as_hashes(admin: Admin, tmp_path: Path) -> None:
    key = await admin.made(service="web", policy={"scopes": ["chat"]}, limits={"concurrent": 3})
    await admin.api.patch("/admin/tenants/acme", json={"limits": {"requests_per_min": 60}})
    records: list[Any] = []
    for kind in ("tenant", "service", "key"):
        records += (await admin.api.get("/admin/export", params={"kind": kind})).json()["data"]
    assert key["key"].split("-", 2)[2] not in str(records)
    other_folder = tmp_path / "other"
    other_folder.mkdir()
    async with running_admin(other_folder) as other:
        assert (await other.api.post("/admin/import", json={"records": records})).json()["added"] == 3
        again = (await other.api.post("/admin/import", json={"records": records})).json()
        assert (again["added"], again["present"]) == (0, 3)
        principal = await login(other, key["key"])
        assert (principal.tenant, principal.scopes) == ("acme", frozenset({"chat"}))
        assert [level.level for level in principal.limits] == ["key", "tenant"]


async def test_an_import_that_is_not_right_adds_nothing(admin: Admin) -> None:
    good = {"format": 1, "kind": "tenant", "name": "t", "created_at_s": 1.0}
    bad = good | {"limits": {"tokens_per_minute": 3}}
    reply = await admin.api.post("/admin/import", json={"records": [good, bad]})
    assert reply.status_code == 400
    assert (await admin.api.get("/admin/tenants/t")).status_code == 404
