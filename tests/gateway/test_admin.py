"""The admin API as a whole: who may use it, in which role, how it says no, and what needs no key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from gateway.admin.roles import PERMISSIONS, may
from gateway.admin.stored_keys import Role
from gateway.host.runtime import Readiness

from .admin_api import Admin, running_admin

# What needs which permission; every route of the API is here, as a test below makes sure.
ROUTES: dict[tuple[str, str], str] = {
    ("GET", "/admin/tenants"): "read",
    ("POST", "/admin/tenants"): "write",
    ("GET", "/admin/tenants/{name}"): "read",
    ("PATCH", "/admin/tenants/{name}"): "write",
    ("DELETE", "/admin/tenants/{name}"): "write",
    ("POST", "/admin/tenants/{name}/disable"): "operate",
    ("POST", "/admin/tenants/{name}/enable"): "operate",
    ("GET", "/admin/services"): "read",
    ("POST", "/admin/services"): "write",
    ("GET", "/admin/services/{tenant}/{name}"): "read",
    ("PATCH", "/admin/services/{tenant}/{name}"): "write",
    ("DELETE", "/admin/services/{tenant}/{name}"): "write",
    ("POST", "/admin/services/{tenant}/{name}/disable"): "operate",
    ("POST", "/admin/services/{tenant}/{name}/enable"): "operate",
    ("GET", "/admin/keys"): "read",
    ("POST", "/admin/keys"): "write",
    ("GET", "/admin/keys/{key_id}"): "read",
    ("PATCH", "/admin/keys/{key_id}"): "write",
    ("DELETE", "/admin/keys/{key_id}"): "write",
    ("POST", "/admin/keys/{key_id}/rotate"): "write",
    ("POST", "/admin/keys/{key_id}/disable"): "operate",
    ("POST", "/admin/keys/{key_id}/enable"): "operate",
    ("GET", "/admin/limits/tenant/{name}"): "read",
    ("GET", "/admin/limits/service/{tenant}/{name}"): "read",
    ("GET", "/admin/limits/key/{key_id}"): "read",
    ("GET", "/admin/usage"): "read",
    ("GET", "/admin/audit"): "read-audit",
    ("GET", "/admin/audit/verify"): "read-audit",
    ("GET", "/admin/admin-keys"): "admin-keys",
    ("POST", "/admin/admin-keys"): "admin-keys",
    ("PATCH", "/admin/admin-keys/{key_id}"): "admin-keys",
    ("DELETE", "/admin/admin-keys/{key_id}"): "admin-keys",
    ("POST", "/admin/admin-keys/{key_id}/disable"): "admin-keys",
    ("POST", "/admin/admin-keys/{key_id}/enable"): "admin-keys",
    ("GET", "/admin/backends"): "read",
    ("GET", "/admin/backends/findings"): "read",
    ("GET", "/admin/backends/diff"): "read",
    ("POST", "/admin/backends/route/explain"): "read",
    ("POST", "/admin/backends/{name}/drain"): "operate",
    ("POST", "/admin/backends/{name}/undrain"): "operate",
    ("POST", "/admin/backends/weights"): "write",
    ("POST", "/admin/backends/reset"): "write",
    ("PUT", "/admin/backends/{name}"): "write",
    ("DELETE", "/admin/backends/{name}"): "write",
    ("POST", "/admin/events"): "operate",
    ("GET", "/admin/cache/report"): "read",
    ("GET", "/admin/cache/why-no-hits"): "read",
    ("POST", "/admin/cache/explain"): "read",
    ("PUT", "/admin/cache/modes/{tenant}/{namespace}"): "operate",
    ("GET", "/admin/cache/shadow"): "read",
    ("POST", "/admin/cache/judgements"): "operate",
    ("GET", "/admin/cache/judges"): "read",
    ("PUT", "/admin/cache/judges"): "operate",
    ("DELETE", "/admin/cache/judges"): "operate",
    ("GET", "/admin/cache/stats"): "read",
    ("GET", "/admin/cache/clusters"): "read",
    ("POST", "/admin/cache/entries"): "read",
    ("GET", "/admin/cache/entries/{entry_id}"): "read",
    ("POST", "/admin/cache/invalidate"): "write",
    ("POST", "/admin/cache/flush"): "write",
    ("POST", "/admin/cache/export"): "transfer",
    ("POST", "/admin/cache/import"): "transfer",
    ("GET", "/admin/cache/index"): "read",
    ("GET", "/admin/export"): "transfer",
    ("POST", "/admin/import"): "transfer",
}
NAMES = {"entry_id": "1" * 16, "name": "acme", "tenant": "acme", "key_id": "a" * 12, "namespace": "default"}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


async def test_every_route_of_the_api_is_tested_for_its_permission(admin: Admin) -> None:
    document = (await admin.api.get("/openapi.json")).json()
    routes = {
        (method.upper(), path)
        for path, item in document["paths"].items()
        if path.startswith("/admin/")
        for method in item
    }
    assert routes == set(ROUTES)


@pytest.mark.parametrize("role", PERMISSIONS)
async def test_a_role_may_do_what_the_table_says_and_nothing_else(admin: Admin, role: Role) -> None:
    headers = await admin.key_of(role)
    wrong = []
    for (method, path), permission in ROUTES.items():
        reply = await admin.api.request(method, path.format_map(NAMES), headers=headers)
        is_let_in = reply.status_code not in (401, 403)
        if is_let_in is not may(role, permission):  # type: ignore[arg-type]  # the table above is of plain words
            wrong.append((method, path, reply.status_code))
    assert wrong == []


async def test_nobody_without_an_admin_key_gets_anywhere(admin: Admin) -> None:
    key = (await admin.made())["key"]
    spellings = ["{}", "{}/", "/{}", "{}?x=1", "{}%2e"]
    for method, path in ROUTES:
        for headers in (
            {"authorization": ""},
            {"authorization": f"Bearer {key}"},
            {"x-api-key": admin.owner},
        ):
            for spelling in spellings:
                url = spelling.format(path.format_map(NAMES))
                reply = await admin.api.request(method, url, headers={"authorization": ""} | headers)
                assert reply.status_code in (401, 404, 405, 307), (method, url)


@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer wrong",
        b"Bearer ega-",
        b"Basic {}",
        b"Bearer {}x",
        "Bearer é".encode(),
    ],
)
async def test_only_an_admin_key_opens(admin: Admin, authorization: bytes) -> None:
    sent = authorization.replace(b"{}", admin.owner.encode())
    reply = await admin.api.get("/admin/keys", headers={b"authorization": sent})
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
    assert reply.headers["x-should-retry"] == "false"
    assert admin.owner not in reply.text


async def test_two_keys_at_once_open_nothing(admin: Admin) -> None:
    headers = [("authorization", f"Bearer {admin.owner}"), ("authorization", "Bearer another")]
    async with httpx.AsyncClient(transport=httpx.ASGITransport(admin.app), base_url="http://admin") as api:
        assert (await api.get("/admin/keys", headers=headers)).status_code == 401


async def test_the_scheme_may_be_written_in_any_case(admin: Admin) -> None:
    reply = await admin.api.get("/admin/keys", headers={"authorization": f"bEARER {admin.owner}"})
    assert reply.status_code == 200


async def test_a_disabled_admin_key_opens_nothing(admin: Admin) -> None:
    made = await admin.made("admin-keys", role="viewer", name="for a while")
    headers = {"authorization": f"Bearer {made['key']}"}
    assert (await admin.api.get("/admin/keys", headers=headers)).status_code == 200
    disabled = await admin.api.post(f"/admin/admin-keys/{made['id']}/disable")
    assert disabled.json()["disabled_at"] is not None
    assert (await admin.api.get("/admin/keys", headers=headers)).status_code == 401
    await admin.api.post(f"/admin/admin-keys/{made['id']}/enable")
    assert (await admin.api.get("/admin/keys", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/disable", None), ("DELETE", "", None), ("PATCH", "", {"role": "admin"})],
)
async def test_the_last_owner_cannot_be_taken_away(
    admin: Admin, method: str, path: str, body: dict[str, Any] | None
) -> None:
    key_id = admin.owner.split("-")[1]
    reply = await admin.api.request(method, f"/admin/admin-keys/{key_id}{path}", json=body)
    assert (reply.status_code, reply.json()["error"]["code"]) == (409, "conflict")
    await admin.made("admin-keys", role="owner")
    assert (
        await admin.api.request(method, f"/admin/admin-keys/{key_id}{path}", json=body)
    ).status_code == 200


async def test_the_secret_of_an_admin_key_is_shown_once(admin: Admin) -> None:
    made = await admin.made("admin-keys", role="admin", name="for the release robot")
    listed = (await admin.api.get("/admin/admin-keys")).json()["data"]
    assert {"id": made["id"], "name": "for the release robot", "role": "admin"}.items() <= listed[-1].items()
    assert made["key"] not in str(listed)


async def test_a_store_that_is_away_is_a_503(admin: Admin) -> None:
    assert admin.valkey is not None
    await admin.valkey.kill()
    for reply in (
        await admin.api.get("/admin/keys"),
        await admin.api.post("/admin/keys", json={"tenant": "t"}),
    ):
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "store_unavailable")


@pytest.mark.parametrize(
    ("state", "status"), [("ok", 200), ("degraded", 200), ("starting", 503), ("draining", 503)]
)
async def test_readiness_says_what_is_missing(admin: Admin, state: Any, status: int) -> None:
    admin.host.ready = Readiness(state, ("the cache store does not answer",))
    reply = await admin.api.get("/health/ready")
    assert reply.status_code == status
    assert reply.json() == {"status": state, "reasons": ["the cache store does not answer"]}


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json"])
async def test_health_metrics_and_documentation_need_no_key(admin: Admin, path: str) -> None:
    assert (await admin.api.get(path, headers={"authorization": ""})).status_code == 200


async def test_metrics_come_in_the_form_that_was_asked_for(admin: Admin) -> None:
    plain = await admin.api.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    asked = {"accept": "application/openmetrics-text;version=1.0.0"}
    openmetrics = await admin.api.get("/metrics", headers=asked)
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert list(text_string_to_metric_families(openmetrics.text))  # type: ignore[no-untyped-call]  # it has no types


async def test_the_documentation_describes_the_data_plane_too(admin: Admin) -> None:
    document = (await admin.api.get("/openapi.json")).json()
    chat = document["paths"]["/v1/chat/completions"]["post"]
    told = {
        "200",
        "400",
        "401",
        "403",
        "404",
        "405",
        "408",
        "413",
        "415",
        "429",
        "502",
        "503",
        "504",
        "default",
    }
    assert told == set(chat["responses"])
    assert "x-cache" in chat["responses"]["200"]["headers"]
    assert document["paths"]["/admin/keys"]["post"]["security"] == [{"admin": []}]


async def test_the_documentation_works_behind_a_path_prefix(admin: Admin) -> None:
    page = (await admin.api.get("/docs")).text
    assert "url: 'openapi.json'" in page
    assert (await admin.api.get("/openapi.json")).json()["servers"][0]["url"] == "."
