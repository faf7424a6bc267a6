"""Admins see what the cache keeps, and remove it by what it has to do with: that, and nothing else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.asking import ASKED, SAME
from tests.gateway.admin_api import running_admin
from tests.gateway.admin_cache import SEMANTIC, TEXT, Both, both
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream


async def test_what_is_kept_is_listed_in_pages_without_texts(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        ids = {(await here.asked(f"{TEXT} {number}")).headers.get("x-cache-id") for number in range(5)}
        assert ids == {None}  # a miss has none yet
        found: list[dict[str, Any]] = []
        after = None
        while True:
            page = await here.post("/admin/cache/entries", {"limit": 2, "after": after})
            found += page["data"]
            after = page.get("next")
            if after is None:
                break
        assert len({each["id"] for each in found}) == len(found) == 5
        assert {(each["tenant"], each["namespace"], each["model"]) for each in found} == {
            ("acme", "default", "m1")
        }
        assert "tenant" in found[0]["tagged"]
        assert "Zyxgard" not in json.dumps(found)
        (one,) = [await here.get(f"/admin/cache/entries/{each['id']}") for each in found[:1]]
        assert one == found[0]
        await here.get("/admin/cache/entries/0000000000000000", status=404)


async def test_how_often_an_entry_answered_is_told(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        await here.asked("What is a kettle for?")
        for _ in range(3):
            entry_id = (await here.gateway.chat(TEXT)).headers["x-cache-id"]
        while (await here.get(f"/admin/cache/entries/{entry_id}"))["hits"] < 3:
            pass  # counted in the background
        found = (await here.post("/admin/cache/entries", {"tenant": "acme"}))["data"]
        assert {each["hits"] for each in found if each["id"] != entry_id} == {0}


async def test_an_entry_goes_by_its_id_and_a_dry_run_leaves_it(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        await here.asked("What is a kettle for?")
        entry_id = (await here.gateway.chat(TEXT)).headers["x-cache-id"]
        dry = await here.post("/admin/cache/invalidate", {"ids": [entry_id]})
        assert (dry["dry_run"], dry["found"], dry["removed"]) == (True, 1, 0)
        assert await here.has(TEXT)
        for removed in (1, 0):  # to ask again does no harm, and counts what went
            assert (await here.remove(ids=[entry_id]))["removed"] == removed
        assert not await here.has(TEXT)
        assert await here.has("What is a kettle for?")


@pytest.mark.parametrize(
    "chosen",
    [
        {"tenant": "acme"},
        {"tenant": "acme", "service": "web"},
        {"tenant": "acme", "namespace": "mine"},
        {"tenant": "acme", "user": "u1"},
        {"tenant": "acme", "safety_identifier": "s1"},
        {"model": "m1"},
        {"version": "m1@r1"},
        {"tenant": "acme", "model": "m1", "older_than_s": 0},
    ],
    ids="+".join,
)
async def test_entries_go_by_what_they_have_to_do_with(chosen: dict[str, Any], tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        other = await here.gateway.new_key("umbrella", "web")
        mine: dict[str, Any] = {
            "user": "u1",
            "safety_identifier": "s1",
            "headers": {"x-cache-namespace": "mine"},
        }
        theirs = {"key": other, "model": "m2", "user": "u1"}
        await here.asked(TEXT, **mine)
        await here.asked(TEXT, **theirs)
        done = await here.remove(**chosen)
        assert (done["found"], done["removed"]) == (1, 1)
        assert done["namespaces"] == [{"tenant": "acme", "namespace": "mine", "model": "m1", "found": 1}]
        assert not await here.has(TEXT, **mine)
        assert await here.has(TEXT, **theirs)


async def test_entries_go_by_key_and_by_the_request_that_was_answered(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked("What is a kettle for?")
        for is_hit in (False, True):
            reply = await here.asked(TEXT)
            if is_hit:
                reply = await here.gateway.chat(TEXT)
            wish = {"request_id": reply.headers["x-echogate-request-id"]}
            while not (await here.post("/admin/cache/invalidate", wish))["found"]:
                pass  # what was decided of a request is written in the background
            assert (await here.remove(**wish))["removed"] == 1
            assert not await here.has(TEXT)
        await here.asked(TEXT)
        assert (await here.remove(key=here.gateway.key.split("-")[1]))["removed"] == 2


async def test_questions_near_a_text_go_and_others_stay(tmp_path: Path) -> None:
    async with both(tmp_path, **SEMANTIC) as here:
        await here.asked(ASKED)
        await here.asked("When does the library open on Sundays?")
        done = await here.remove(alike=SAME, min_similarity=0.9)
        assert done["removed"] == 1
        assert (await here.gateway.chat(SAME)).headers["x-cache"] == "MISS"
        assert await here.has("When does the library open on Sundays?")


async def test_a_cluster_is_told_with_what_came_of_searches_and_goes_as_a_whole(tmp_path: Path) -> None:
    async with both(tmp_path, **SEMANTIC) as here:
        await here.asked(ASKED)
        assert (await here.gateway.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        await here.asked("When does the library open on Sundays?")
        found: list[dict[str, Any]] = []
        while not found or found[0]["searches"] < 2:  # counted behind the path
            found = (await here.get("/admin/cache/clusters", tenant="acme"))["data"]
        (cluster,) = found
        assert (cluster["name"], cluster["size"], cluster["hits"]) == ("cluster_0", 2, 1)
        assert cluster["hit_rate"] == 0.5
        assert 0 < cluster["similarity"] < 1
        assert (await here.get("/admin/cache/clusters", tenant="umbrella"))["data"] == []
        assert (await here.remove(cluster=cluster["id"]))["removed"] == 2
        assert not await here.has(ASKED)
        stale = cluster["id"].replace("-0-", "-12ab-")
        refused = await here.post("/admin/cache/invalidate", {"cluster": stale}, status=400)
        assert "drawn anew" in refused["error"]["message"]


async def test_a_namespace_is_flushed_for_all_models_and_others_are_not(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        there = {"headers": {"x-cache-namespace": "other"}}
        for fields in ({"model": "m1"}, {"model": "m2"}, there):
            await here.asked(TEXT, **fields)
        wish = {"tenant": "acme", "namespace": "default"}
        dry = await here.post("/admin/cache/flush", wish)
        assert [each["model"] for each in dry["namespaces"]] == ["m1", "m2"]
        assert await here.has(TEXT)
        await here.post("/admin/cache/flush", {**wish, "dry_run": False})
        assert [await here.has(TEXT, model=model) for model in ("m1", "m2")] == [False, False]
        assert await here.has(TEXT, **there)


async def test_what_tenants_keep_is_told_beside_their_quotas(tmp_path: Path) -> None:
    async with both(tmp_path, quotas={"acme": {"entries": 7, "mib": 1}}, **SEMANTIC) as here:
        await here.asked(ASKED)
        await here.asked(TEXT, headers={"x-cache-namespace": "other"})
        told: dict[str, Any] = {}
        while len(told.get("namespaces", ())) < 2 or None in [each["model"] for each in told["namespaces"]]:
            told = await here.get("/admin/cache/stats", tenant="acme")
        (tenant,) = told["tenants"]
        assert (tenant["entries"], tenant["most_entries"], tenant["most_bytes"]) == (2, 7, 1 << 20)
        assert [(each["namespace"], each["entries"]) for each in told["namespaces"]] == [
            ("default", 1),
            ("other", 1),
        ]
        assert sum(each["bytes"] for each in told["namespaces"]) == tenant["bytes"] > 0
        assert told["is_whole"]
        assert told["index"]["vectors"] == 2
        assert told["sealing"] == {"sealed": 0, "unsealed": 2, "refused": 0}
        assert [each["tenant"] for each in (await here.get("/admin/cache/stats"))["tenants"]] == ["acme"]


async def test_sealed_entries_are_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAL_ONE", "11" * 32)
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, store={"deadline_ms": 2000, "encrypt_key": "env:SEAL_ONE"}) as gateway,
        running_admin(tmp_path, url=gateway.valkey.url, ask_cache=gateway.ask_cache) as admin,
    ):
        here = Both(gateway, admin)
        await here.asked(TEXT)
        assert (await here.get("/admin/cache/stats"))["sealing"]["sealed"] == 1
