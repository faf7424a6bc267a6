"""LiteLLM's paths for keys: its clients' requests do here what they do there, or are told that they cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.admin_api import Admin, running_admin

Reply = dict[str, Any]


@pytest.fixture
async def admin(tmp_path: Path) -> AsyncIterator[Admin]:
    async with running_admin(tmp_path) as running:
        yield running


async def asked(admin: Admin, verb: str, **body: Any) -> Reply:
    reply = await admin.api.post(f"/key/{verb}", json=body)
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def test_a_key_made_in_litellms_words_is_one_of_ours(admin: Admin) -> None:
    made = await asked(
        admin,
        "generate",
        key_alias="search",
        team_id="acme",
        user_id="ada@example.com",
        models=["gpt-*"],
        duration="30d",
        max_budget=12.5,
        budget_duration="30d",
        rpm_limit=600,
        tpm_limit=90_000,
        max_parallel_requests=7,
        metadata={"team": "core"},
    )
    ours = (await admin.api.get(f"/admin/keys/{made['token_id']}")).json()
    assert made["key"].startswith(f"eg-{ours['id']}-")
    assert (ours["tenant"], ours["service"], ours["name"]) == ("acme", "default", "search")
    assert ours["policy"]["models"] == ["gpt-*"]
    assert ours["metadata"] == {"team": "core", "user_id": "ada@example.com"}
    limits = {
        name: ours["limits"][name] for name in ("requests_per_min", "tokens_per_min", "concurrent", "budget")
    }
    assert limits == {
        "requests_per_min": 600,
        "tokens_per_min": 90_000,
        "concurrent": 7,
        "budget": {"amount": 12.5, "unit": "money", "period": "month"},
    }
    lifetime = datetime.fromisoformat(ours["expires_at"]) - datetime.fromisoformat(ours["created_at"])
    assert abs(lifetime - timedelta(days=30)) < timedelta(minutes=1)


async def test_a_key_of_which_nothing_is_said_may_use_every_model_for_ever(admin: Admin) -> None:
    made = await asked(
        admin, "generate", models=[], team_id=None, aliases={}, permissions=None, blocked=False
    )
    ours = (await admin.api.get(f"/admin/keys/{made['token_id']}")).json()
    assert (ours["tenant"], ours["policy"]["models"], ours["expires_at"]) == ("default", None, None)
    assert ours["effective"]["models"] == ["*"]


async def test_info_names_a_key_by_itself_or_by_its_id_and_never_shows_the_secret(admin: Admin) -> None:
    made = await asked(admin, "generate", key_alias="a", max_budget=3, budget_duration="1d", user_id="u")
    for name in (made["key"], made["token_id"]):
        reply = await admin.api.get("/key/info", params={"key": name})
        info = reply.json()["info"]
        assert info == {name: made[name] for name in info}
        assert made["key"].rpartition("-")[2] not in reply.text
    assert (info["max_budget"], info["budget_duration"], info["user_id"], info["blocked"]) == (
        3,
        "1d",
        "u",
        False,
    )


async def test_an_update_changes_what_it_names_and_null_takes_a_limit_away(admin: Admin) -> None:
    made = await asked(
        admin, "generate", rpm_limit=10, tpm_limit=20, max_budget=1, budget_duration="1d", user_id="u"
    )
    key = made["key"]
    changed = await asked(
        admin, "update", key=key, rpm_limit=None, max_budget=5, models=["m"], metadata={"a": "b"}
    )
    kept = ("tpm_limit", "budget_duration", "user_id", "expires")
    assert {name: changed[name] for name in kept} == {name: made[name] for name in kept}
    assert (changed["rpm_limit"], changed["max_budget"], changed["models"]) == (None, 5, ["m"])
    assert changed["metadata"] == {"a": "b"}
    changed = await asked(
        admin, "update", key=key, max_budget=None, models=["all-proxy-models"], duration="1h"
    )
    assert (changed["max_budget"], changed["budget_duration"], changed["models"]) == (None, None, [])
    assert changed["expires"] is not None
    assert (await asked(admin, "update", key=key, duration="-1"))["expires"] is None


async def test_block_unblock_and_delete_reach_every_worker(admin: Admin) -> None:
    made = await asked(admin, "generate")
    name = made["key"]
    assert (await asked(admin, "block", key=name))["blocked"] is True
    assert (await asked(admin, "unblock", key=name))["blocked"] is False
    assert await asked(admin, "delete", keys=[name]) == {"deleted_keys": [made["token_id"]]}
    assert len(admin.host.applied) == 3
    gone = await admin.api.get("/key/info", params={"key": name})
    assert (gone.status_code, name in gone.text) == (404, False)


async def test_a_key_can_be_born_blocked(admin: Admin) -> None:
    made = await asked(admin, "generate", blocked=True)
    ours = (await admin.api.get(f"/admin/keys/{made['token_id']}")).json()
    assert (made["blocked"], ours["state"]) == (True, "disabled")


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"guardrails": ["x"]}, "guardrails"),
        ({"key": "sk-mine"}, "key: not known"),
        ({"model_max_budget": {"m": 1}}, "model_max_budget"),
        ({"rpm_limits": 5}, "rpm_limits"),
        ({"max_budget": 5}, "budget_duration"),
        ({"max_budget": 5, "budget_duration": "7d"}, "calendar day or month"),
        ({"duration": "soon"}, "30m, 12h, 90d"),
        ({"duration": "0s"}, "30m, 12h, 90d"),
        ({"rpm_limit": "5"}, "rpm_limit"),
        ({"rpm_limit": 0}, "rpm_limit"),
        ({"rpm_limit": 10**12}, "requests_per_min"),
        ({"team_id": "not a name"}, "team_id"),
        ({"models": ["bad name\n"]}, "bad name"),
        ({"metadata": {"a": {"b": 1}}}, "metadata"),
    ],
)
async def test_what_would_not_do_what_it_does_at_litellm_is_refused(
    admin: Admin, body: Reply, says: str
) -> None:
    reply = await admin.api.post("/key/generate", json=body)
    assert reply.status_code == 400
    assert says in reply.json()["error"]["message"]
    assert (await admin.api.get("/admin/keys")).json()["data"] == []


async def test_roles_and_audit_are_those_of_the_admin_api(admin: Admin) -> None:
    made = await asked(admin, "generate")
    viewer, operator = await admin.key_of("viewer"), await admin.key_of("operator")
    name = {"key": made["token_id"]}
    assert (await admin.api.post("/key/generate", json={}, headers=operator)).status_code == 403
    assert (await admin.api.post("/key/update", json=name, headers=operator)).status_code == 403
    assert (await admin.api.post("/key/delete", json={"keys": ["x"]}, headers=operator)).status_code == 403
    assert (await admin.api.post("/key/block", json=name, headers=viewer)).status_code == 403
    assert (await admin.api.post("/key/block", json=name, headers=operator)).status_code == 200
    assert (await admin.api.get("/key/info", params=name, headers=viewer)).status_code == 200
    assert (await admin.api.get("/key/info", params=name, headers={"authorization": ""})).status_code == 401
    actions = [record["action"] for record in await admin.audited()]
    assert {"key.create", "key.disable", "POST /key/generate"} <= set(actions)


async def test_the_same_idempotency_key_makes_one_key(admin: Admin) -> None:
    headers = {"idempotency-key": "once"}
    one = (await admin.api.post("/key/generate", json={"key_alias": "a"}, headers=headers)).json()
    other = (await admin.api.post("/key/generate", json={"key_alias": "a"}, headers=headers)).json()
    assert one == other
    assert len((await admin.api.get("/admin/keys")).json()["data"]) == 1
