"""What the admin API reports: usage over time as JSON and CSV, and how limits stand now."""

from __future__ import annotations

import csv
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from auth import Authenticator, Limiter, StoreDirectory, StoreLimits
from gateway.usage.store import Counts, Tally, UsageStore

from .admin_api import Admin, running_admin

NOON = "2026-11-29T12:00:00Z"
MINUTE = int(datetime(2026, 11, 29, 12, tzinfo=UTC).timestamp()) // 60
PERIOD = {"start": NOON, "end": "2026-11-29T14:00:00Z"}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


async def used(admin: Admin, tenant: str, service: str, key_id: str, *, minute: int, counts: Counts) -> None:
    tallies = {Tally(service, key_id, minute): counts}
    await UsageStore(admin.store).add(tenant, tallies, sender=f"{key_id}{minute}", number=1)


async def usage(admin: Admin, **params: Any) -> dict[str, Any]:
    reply = await admin.api.get("/admin/usage", params=PERIOD | params)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_usage_of_a_key_by_minute_and_hour(admin: Admin) -> None:
    key = await admin.made(service="web")
    for minute in (0, 1, 61):
        counts = Counts(requests=1, input_tokens=10, output_tokens=5, cost=0.5)
        await used(admin, "acme", "web", key["id"], minute=MINUTE + minute, counts=counts)
    by_minute = (await usage(admin, level="key", name=key["id"], bucket="minute"))["data"]
    assert [row["start"][11:16] for row in by_minute] == ["12:00", "12:01", "13:01"]
    hours = (await usage(admin, level="key", name=key["id"]))["data"]
    assert [(row["start"], row["requests"], row["cost"]) for row in hours] == [
        (NOON, 2, 1.0),
        ("2026-11-29T13:00:00Z", 1, 0.5),
    ]
    assert {"tenant": "acme", "name": key["id"], "level": "key", "bucket": "hour"}.items() <= hours[0].items()


async def test_usage_of_all_of_a_level_comes_in_pages(admin: Admin) -> None:
    for tenant in ("a", "b", "c"):
        key = await admin.made(tenant=tenant)
        await used(admin, tenant, "default", key["id"], minute=MINUTE, counts=Counts(requests=1))
    first = await usage(admin, limit=2)
    assert ([row["name"] for row in first["data"]], first["has_more"]) == (["a", "b"], True)
    rest = await usage(admin, limit=2, after=first["next"])
    assert ([row["name"] for row in rest["data"]], rest["has_more"]) == (["c"], False)
    services = await usage(admin, level="service")
    assert [(row["tenant"], row["name"]) for row in services["data"]] == [(t, "default") for t in "abc"]


async def test_usage_as_csv_says_the_same(admin: Admin) -> None:
    key = await admin.made()
    await used(admin, "acme", "default", key["id"], minute=MINUTE, counts=Counts(requests=3, hits_exact=2))
    params = PERIOD | {"level": "service", "tenant": "acme", "name": "default", "format": "csv"}
    reply = await admin.api.get("/admin/usage", params=params)
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(reply.text.splitlines())
    assert (row["tenant"], row["name"], row["start"], row["requests"], row["hits_exact"]) == (
        "acme", "default", NOON, "3", "2",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("params", "status", "words"),
    [
        ({"level": "service", "name": "web"}, 400, "A service needs its tenant named."),
        ({"level": "key", "name": "nobody"}, 404, "There is no key"),
        ({"start": NOON, "end": NOON}, 400, "start must lie before end"),
        ({"start": "2020-01-01T00:00:00Z", "bucket": "minute"}, 400, "at most 2880 are shown"),
        ({"start": "yesterday"}, 400, "start"),
    ],
)
async def test_what_cannot_be_reported_is_refused_with_the_reason(
    admin: Admin, params: dict[str, str], status: int, words: str
) -> None:
    reply = await admin.api.get("/admin/usage", params=PERIOD | params)
    assert (reply.status_code, words in reply.json()["error"]["message"]) == (status, True)


async def test_live_limits_of_a_key_are_shown_with_those_of_its_service_and_tenant(admin: Admin) -> None:
    key = await admin.made(service="web", limits={"requests_per_s": None, "requests_per_min": 10})
    await admin.api.patch("/admin/services/acme/web", json={"limits": {"concurrent": 3}})
    await admin.api.patch("/admin/tenants/acme", json={"limits": {"tokens_per_min": 1000}})
    headers = [(b"x-api-key", key["key"].encode())]
    principal = await Authenticator(StoreDirectory(admin.store)).authenticate(headers)
    limiter = Limiter(StoreLimits(admin.store), live_workers=lambda: 1)
    await limiter.take(principal, tokens=400)

    async def live(path: str) -> dict[tuple[str, str], tuple[float, float]]:
        data = (await admin.api.get(f"/admin/limits/{path}")).json()["data"]
        return {(each["level"], each["kind"]): (each["capacity"], each["remaining"]) for each in data}

    shown = await live(f"key/{key['id']}")
    assert shown["key", "requests/min"] == pytest.approx((10, 9), abs=0.9)
    assert shown["service", "concurrent"] == (3, 2)
    assert shown["tenant", "tokens/min"][0] == 1000
    assert 600 <= shown["tenant", "tokens/min"][1] < 1000
    assert set(await live("service/acme/web")) == {("service", "concurrent")}
    assert set(await live("tenant/acme")) == {("tenant", "tokens/min")}
