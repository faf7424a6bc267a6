"""How the admin API says no: in OpenAI's shape, with the field that is wrong, and before it has read too much."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from .admin_api import Admin, running_admin


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as admin:
        yield admin


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "tenant"),
        ({"tenant": ""}, "tenant"),
        ({"tenant": "a b"}, "tenant"),
        ({"tenant": "t\n"}, "tenant"),
        ({"tenant": "t", "tennant": "u"}, "tennant"),
        ({"tenant": "t", "limits": {"requests_per_s": 9}}, "limits.requests_per_s"),
        ({"tenant": "t", "limits": {"requests_per_s": 5001}}, "limits.requests_per_s"),
        ({"tenant": "t", "limits": {"tokens_per_minute": 5}}, "limits.tokens_per_minute"),
        ({"tenant": "t", "policy": {"scopes": ["everything"]}}, "policy.scopes.0"),
        ({"tenant": "t", "expires_at": "2030-01-01T00:00:00"}, "expires_at"),
        ({"tenant": "t", "limits": {"burst": "5"}}, "limits.burst"),
        ({"tenant": "t", "policy": {"shared_pool": 0}}, "policy.shared_pool"),
    ],
)
async def test_a_wrong_request_is_a_400_that_names_the_field(
    admin: Admin, body: dict[str, Any], param: str
) -> None:
    reply = await admin.api.post("/admin/keys", json=body)
    assert (reply.status_code, reply.json()["error"]["param"]) == (400, param)
    assert reply.json()["error"]["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"policy": {"models": ["a model"]}}, "a model"),
        ({"limits": {"requests_per_s": None, "burst": 5}}, "burst needs requests_per_s"),
        ({"expires_at": "2020-01-01T00:00:00Z"}, "expires_at must lie in the future"),
        ({"expires_at": "9999-12-31T23:59:59.999999Z"}, "expires_at must lie in the future"),
    ],
)
async def test_what_may_not_be_set_is_a_400_that_says_why(
    admin: Admin, body: dict[str, Any], words: str
) -> None:
    reply = await admin.api.post("/admin/keys", json={"tenant": "t", **body})
    assert reply.status_code == 400
    assert words in reply.json()["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("PUT", "/admin/keys", 405),
        ("GET", "/admin/keys/nobody", 404),
        ("POST", "/admin/keys/nobody/disable", 404),
        ("DELETE", "/admin/tenants/nobody", 404),
        ("GET", "/admin/limits/service/nobody/here", 404),
    ],
)
async def test_every_error_has_openais_shape(admin: Admin, method: str, path: str, status: int) -> None:
    reply = await admin.api.request(method, path)
    assert reply.status_code == status
    assert set(reply.json()["error"]) == {"message", "type", "param", "code"}


@pytest.mark.parametrize("is_announced", [True, False])
async def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    admin: Admin, is_announced: bool
) -> None:
    sent = 0

    async def body() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(100):
            sent += 1 << 20
            yield b" " * (1 << 20)

    content: Any = b" " * (9 << 20) if is_announced else body()
    reply = await admin.api.post("/admin/keys", content=content)
    assert (reply.status_code, reply.json()["error"]["code"]) == (413, "request_too_large")
    assert sent <= 10 << 20
