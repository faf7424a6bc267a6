"""A creation that is sent twice with the same Idempotency-Key is made once, and answered twice with the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from .admin_api import Admin, running_admin

ONCE = {"idempotency-key": "request-1"}


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("tenants", {"name": "t"}),
        ("services", {"tenant": "t", "name": "s"}),
        ("keys", {"tenant": "t", "metadata": {"team": "a"}}),
        ("admin-keys", {"role": "viewer"}),
    ],
)
async def test_the_second_time_gets_the_first_reply(admin: Admin, kind: str, body: dict[str, object]) -> None:
    first = await admin.api.post(f"/admin/{kind}", json=body, headers=ONCE)
    second = await admin.api.post(f"/admin/{kind}", json=body, headers=ONCE)
    assert (first.status_code, second.status_code) == (201, 201)
    assert second.json() == first.json()
    assert "idempotent-replayed" not in first.headers
    assert second.headers["idempotent-replayed"] == "true"


async def test_without_it_each_time_makes_another(admin: Admin) -> None:
    assert (await admin.made())["id"] != (await admin.made())["id"]


async def test_another_request_with_the_same_key_is_a_422(admin: Admin) -> None:
    await admin.api.post("/admin/keys", json={"tenant": "t"}, headers=ONCE)
    reply = await admin.api.post("/admin/keys", json={"tenant": "u"}, headers=ONCE)
    assert (reply.status_code, reply.json()["error"]["code"]) == (422, "idempotency_key_reused")


async def test_the_same_key_of_another_admin_or_path_is_another(admin: Admin) -> None:
    mine = await admin.api.post("/admin/keys", json={"tenant": "t"}, headers=ONCE)
    theirs = await admin.api.post(
        "/admin/keys", json={"tenant": "t"}, headers=ONCE | await admin.key_of("admin")
    )
    assert theirs.json()["id"] != mine.json()["id"]
    assert (await admin.api.post("/admin/tenants", json={"name": "x"}, headers=ONCE)).status_code == 201


async def test_what_was_refused_may_be_tried_again(admin: Admin) -> None:
    await admin.made("tenants", name="t")
    assert (await admin.api.post("/admin/tenants", json={"name": "t"}, headers=ONCE)).status_code == 409
    await admin.api.delete("/admin/tenants/t")
    assert (await admin.api.post("/admin/tenants", json={"name": "t"}, headers=ONCE)).status_code == 201


async def test_many_at_once_make_one(admin: Admin) -> None:
    replies = await asyncio.gather(
        *(admin.api.post("/admin/keys", json={"tenant": "t"}, headers=ONCE) for _ in range(10))
    )
    assert {reply.status_code for reply in replies} <= {201, 409}  # 409: the first one is under way
    assert len({reply.json()["key"] for reply in replies if reply.status_code == 201}) == 1
    assert len((await admin.api.get("/admin/keys")).json()["data"]) == 1


async def test_the_store_keeps_no_secret_for_it(admin: Admin) -> None:
    secret = (
        (await admin.api.post("/admin/keys", json={"tenant": "t"}, headers=ONCE))
        .json()["key"]
        .split("-", 2)[2]
    )
    (name,) = await admin.store.execute("KEYS", "eg:{k}:once:*")
    assert secret.encode() not in await admin.store.execute("GET", name)
    assert 0 < await admin.store.execute("TTL", name) <= 86_400


@pytest.mark.parametrize("key", ["", "x" * 256, "tab\there"])
async def test_a_key_that_is_none_is_a_400(admin: Admin, key: str) -> None:
    reply = await admin.api.post("/admin/keys", json={"tenant": "t"}, headers={"idempotency-key": key})
    assert reply.status_code == 400
