"""The admin API by itself: who may use it, what it answers, and how it says no."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from auth import Limits
from auth.testing import MemoryDirectory
from gateway.admin import AdminContext, create_app
from gateway.bootstrap import AdminKey
from gateway.control import ControlRecord
from gateway.metrics import Metrics
from gateway.metrics_merge import Snapshot
from gateway.runtime import Readiness

ADMIN = "ega-the-admin-key"
HEADERS = {"authorization": f"Bearer {ADMIN}"}


@dataclass
class Plane:
    """What the supervisor would be behind the API."""

    directory: MemoryDirectory = field(default_factory=MemoryDirectory)
    admin_key: AdminKey | None = field(
        default_factory=lambda: AdminKey(hashlib.sha256(ADMIN.encode()).digest())
    )
    ready: Readiness = field(default_factory=lambda: Readiness("ok"))
    published: list[ControlRecord] = field(default_factory=list)
    late: list[int] = field(default_factory=list)

    async def publish(self, record: ControlRecord) -> tuple[str, list[int]]:
        self.published.append(record)
        return "1-0", self.late

    async def metrics(self) -> Snapshot:
        return Metrics([]).snapshot()

    async def readiness(self) -> Readiness:
        return self.ready


@pytest.fixture
def plane() -> Plane:
    return Plane()


@pytest.fixture
async def api(plane: Plane) -> AsyncIterator[httpx.AsyncClient]:
    app = create_app(
        AdminContext(
            directory=plane.directory,
            default_limits=Limits(requests_per_s=100, burst=500),
            admin_key=lambda: plane.admin_key,
            publish=plane.publish,
            metrics=plane.metrics,
            readiness=plane.readiness,
        )
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=HEADERS) as api:
        yield api


async def made(api: httpx.AsyncClient, **asked: Any) -> dict[str, Any]:
    reply = await api.post("/admin/keys", json={"tenant": "acme", **asked})
    assert reply.status_code == 201, reply.text
    return dict(reply.json())


async def test_a_new_key_is_shown_once(api: httpx.AsyncClient) -> None:
    key = await made(api, service="search", name="for the search team")
    assert key["key"].startswith(f"eg-{key['id']}-")
    (listed,) = (await api.get("/admin/keys")).json()["data"]
    assert listed == {name: value for name, value in key.items() if name != "key"}
    assert (listed["tenant"], listed["service"], listed["name"]) == ("acme", "search", "for the search team")


async def test_a_key_has_the_configured_limit_unless_told_otherwise(api: httpx.AsyncClient) -> None:
    assert (await made(api))["limit"] == {"rate_per_s": 100, "burst": 500}
    assert (await made(api, limit={"rate_per_s": 0.5, "burst": 1}))["limit"] == {
        "rate_per_s": 0.5,
        "burst": 1,
    }


async def test_revoking_tells_all_workers_and_names_the_late(api: httpx.AsyncClient, plane: Plane) -> None:
    key, plane.late = await made(api), [3]
    revoked = (await api.delete(f"/admin/keys/{key['id']}")).json()
    assert revoked["revoked_at"] is not None
    assert revoked["change"] == {"id": "1-0", "not_acknowledged_by": [3]}
    assert [record.key_id for record in plane.published] == [key["id"]]


async def test_revoking_twice_does_no_harm(api: httpx.AsyncClient) -> None:
    key = await made(api)
    first = (await api.delete(f"/admin/keys/{key['id']}")).json()
    assert (await api.delete(f"/admin/keys/{key['id']}")).json()["revoked_at"] == first["revoked_at"]


async def test_a_key_that_does_not_exist_cannot_be_revoked(api: httpx.AsyncClient, plane: Plane) -> None:
    reply = await api.delete("/admin/keys/nobody")
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "not_found")
    assert plane.published == []


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE"])
@pytest.mark.parametrize(
    "authorization",
    [
        b"",
        b"Bearer",
        b"Bearer wrong",
        f"Basic {ADMIN}".encode(),
        f"Bearer {ADMIN}x".encode(),
        "Bearer é".encode(),
    ],
)
async def test_only_the_admin_key_opens(api: httpx.AsyncClient, method: str, authorization: bytes) -> None:
    path = "/admin/keys/x" if method == "DELETE" else "/admin/keys"
    reply = await api.request(method, path, headers={b"authorization": authorization}, json={"tenant": "t"})
    assert (reply.status_code, reply.json()["error"]["code"]) == (401, "invalid_api_key")
    assert ADMIN not in reply.text


async def test_before_the_admin_key_is_known_it_is_too_early(api: httpx.AsyncClient, plane: Plane) -> None:
    plane.admin_key = None
    assert (await api.get("/admin/keys")).status_code == 503


async def test_without_an_admin_key_nothing_opens(api: httpx.AsyncClient, plane: Plane) -> None:
    plane.admin_key = AdminKey(None)
    assert (await api.get("/admin/keys")).status_code == 401


async def test_a_store_that_is_away_is_a_503(api: httpx.AsyncClient, plane: Plane) -> None:
    plane.directory.is_down = True
    for reply in (await api.get("/admin/keys"), await api.post("/admin/keys", json={"tenant": "t"})):
        assert (reply.status_code, reply.json()["error"]["code"]) == (503, "store_unavailable")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": "a b"}, "tenant"),
        ({"tenant": "t", "tennant": "u"}, "tennant"),
        ({"tenant": "t", "limit": {"rate_per_s": 0, "burst": 1}}, "limit.rate_per_s"),
        ({"tenant": "t", "limit": {"rate_per_s": 1}}, "limit.burst"),
    ],
)
async def test_a_wrong_request_is_a_400_that_names_the_field(
    api: httpx.AsyncClient, body: dict[str, Any], param: str
) -> None:
    reply = await api.post("/admin/keys", json=body)
    assert reply.status_code == 400
    assert reply.json()["error"]["param"] == param
    assert reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("method", "path", "status"), [("GET", "/nothing", 404), ("PUT", "/admin/keys", 405)]
)
async def test_every_error_has_openais_shape(
    api: httpx.AsyncClient, method: str, path: str, status: int
) -> None:
    reply = await api.request(method, path)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize(
    ("state", "status"), [("ok", 200), ("degraded", 200), ("starting", 503), ("draining", 503)]
)
async def test_readiness_says_what_is_missing(
    api: httpx.AsyncClient, plane: Plane, state: Any, status: int
) -> None:
    plane.ready = Readiness(state, ("the cache store does not answer",))
    reply = await api.get("/health/ready")
    assert reply.status_code == status
    assert reply.json() == {"status": state, "reasons": ["the cache store does not answer"]}


@pytest.mark.parametrize("path", ["/health/live", "/health/ready", "/metrics", "/docs", "/openapi.json"])
async def test_health_metrics_and_documentation_need_no_key(api: httpx.AsyncClient, path: str) -> None:
    assert (await api.get(path, headers={"authorization": ""})).status_code == 200


async def test_metrics_come_in_the_form_that_was_asked_for(api: httpx.AsyncClient) -> None:
    plain = await api.get("/metrics")
    assert plain.headers["content-type"].startswith("text/plain")
    openmetrics = await api.get("/metrics", headers={"accept": "application/openmetrics-text;version=1.0.0"})
    assert openmetrics.headers["content-type"].startswith("application/openmetrics-text")
    assert list(text_string_to_metric_families(openmetrics.text))  # type: ignore[no-untyped-call]  # it has no types


async def test_the_documentation_describes_the_data_plane_too(api: httpx.AsyncClient) -> None:
    document = (await api.get("/openapi.json")).json()
    chat = document["paths"]["/v1/chat/completions"]["post"]
    assert {"200", "400", "401", "404", "413", "429", "502", "503", "504"} == set(chat["responses"])
    assert "x-cache" in chat["responses"]["200"]["headers"]
    assert document["paths"]["/admin/keys"]["post"]["security"] == [{"admin": []}]


async def test_the_documentation_works_behind_a_path_prefix(api: httpx.AsyncClient) -> None:
    page = (await api.get("/docs")).text
    assert "url: 'openapi.json'" in page
    assert (await api.get("/openapi.json")).json()["servers"][0]["url"] == "."
