"""What admins may do with what the cache keeps, and what is left of it in the log: no text, and nobody's name."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from gateway.commands.admin_client import AdminClient
from gateway.commands.cache_transfer import export_pages
from gateway.ops import entries
from tests.gateway.admin_api import running_admin
from tests.gateway.admin_cache import SEMANTIC, TEXT, Both, both
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream


async def test_texts_are_for_owners_where_the_configuration_shows_them_and_that_is_recorded(
    tmp_path: Path,
) -> None:
    async with both(tmp_path, shows_texts=True) as here:
        await here.asked(TEXT)
        (entry,) = (await here.post("/admin/cache/entries", {"texts": True}))["data"]
        assert entry["question"] == TEXT
        assert entry["answer"]
        assert [each["action"] for each in await here.admin.audited()][-1:] == ["cache.texts"]
        viewer = await here.admin.key_of("admin")
        reply = await here.admin.api.post("/admin/cache/entries", json={"texts": True}, headers=viewer)
        assert reply.status_code == 403


async def test_texts_come_in_pages_too(tmp_path: Path) -> None:
    async with both(tmp_path, shows_texts=True) as here:
        for begin in range(0, 300, 50):
            await asyncio.gather(*(here.gateway.chat(f"{TEXT} {begin + each}") for each in range(50)))
        await here.gateway.idle()
        found: list[str] = []
        pages, after = 0, None
        while pages == 0 or after is not None:
            page = await here.post("/admin/cache/entries", {"texts": True, "limit": 1, "after": after})
            found += [each["question"] for each in page["data"]]
            pages, after = pages + 1, page.get("next")
        assert pages > 1
        assert sorted(found) == sorted(f"{TEXT} {each}" for each in range(300))


async def test_without_that_no_role_sees_a_text(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        for path, body in (("entries", {"texts": True}), ("export", {})):
            refused = await here.post(f"/admin/cache/{path}", body, status=403)
            assert "admin.shows_texts" in refused["error"]["message"]
        await here.get("/admin/cache/clusters", tenant="acme", texts=True, status=403)


async def test_what_was_taken_out_can_be_taken_in(tmp_path: Path) -> None:
    async with both(tmp_path, shows_texts=True) as here:
        await here.asked(TEXT)
        told = await here.post("/admin/cache/export", {"tenant": "acme"})
        assert (len(told["lines"]), told["next"], told["too_large"]) == (1, None, 0)
        await here.remove(tenant="acme")
        assert not await here.has(TEXT)
        done = await here.post("/admin/cache/import", {"lines": [*told["lines"], "{}"]})
        assert done["outcomes"] == {"stored": 1}
        assert [each["line"] for each in done["refused"]] == [2]
        assert done["taken"] == 2
        assert await here.has(TEXT)


async def test_what_does_not_fit_into_a_page_is_taken_out_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "PAGE_BYTES", 3_000)
    async with both(tmp_path, shows_texts=True) as here:
        texts = {f"{TEXT} {number}" for number in range(40)}
        await asyncio.gather(*(here.gateway.chat(text) for text in texts))
        await here.gateway.idle()
        loop = asyncio.get_running_loop()

        class Terminal(AdminClient):
            def __init__(self) -> None:
                """Asks this plane, whose loop is elsewhere."""

            def ask(self, method: str, path: str, body: Any = None, **_: Any) -> dict[str, Any]:
                return asyncio.run_coroutine_threadsafe(here.post(path, body), loop).result(30)

        pages = await asyncio.to_thread(lambda: list(export_pages(Terminal(), {"tenant": "acme"})))
        assert max(len(page["lines"]) for page in pages) < 15
        assert {json.loads(line)["question"] for page in pages for line in page["lines"]} == texts
        assert sum(len(page["lines"]) for page in pages) == len(texts)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "everything"),
        ({"everything": True, "tenant": "acme"}, "not both"),
        ({"user": "u1"}, "needs the tenant"),
        ({"ids": ["x"]}, "ids"),
        ({"after": "x"}, "after"),
        ({"tenent": "acme"}, "tenent"),
        ({"cluster": "c"}, "no cluster's id"),
        ({"min_similarity": 0.5}, "everything"),
    ],
)
async def test_a_choice_that_says_nothing_or_two_things_is_refused(
    body: dict[str, Any], said: str, tmp_path: Path
) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        refused = await here.post("/admin/cache/invalidate", {"dry_run": False, **body}, status=400)
        assert said in refused["error"]["message"]
        assert await here.has(TEXT)


async def test_what_was_removed_is_recorded_without_who_a_person_is_and_what_was_said(tmp_path: Path) -> None:
    async with both(tmp_path, **SEMANTIC) as here:
        await here.asked(TEXT, user="zyx@example.org")
        await here.remove(tenant="acme", user="zyx@example.org", alike=TEXT)
        record = (await here.admin.audited())[-1]
        assert (record["action"], record["outcome"]) == ("cache.invalidate", "done")
        assert {"dry_run": False, "found": 1, "removed": 1}.items() <= record["after"].items()
        assert record["after"]["tenant"] == "acme"
        assert not any(word in json.dumps(record) for word in ("zyx", "Zyxgard"))


@pytest.mark.parametrize("role", ["viewer", "operator"])
async def test_who_may_only_look_removes_nothing(role: Any, tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        headers = await here.admin.key_of(role)
        for path, body in (("invalidate", {"tenant": "acme"}), ("flush", {}), ("import", {"lines": []})):
            reply = await here.admin.api.post(f"/admin/cache/{path}", json=body, headers=headers)
            assert reply.status_code == 403
        assert (await here.admin.api.post("/cache/flushall", headers=headers)).status_code == 403
        assert (await here.admin.api.get("/admin/cache/stats", headers=headers)).status_code == 200
        assert await here.has(TEXT)


async def test_litellms_paths_do_the_same(tmp_path: Path) -> None:
    async with both(tmp_path) as here:
        await here.asked(TEXT)
        await here.asked("What is a kettle for?")
        assert (await here.get("/cache/ping"))["status"] == "healthy"
        entry_id = (await here.gateway.chat(TEXT)).headers["x-cache-id"]
        await here.post("/cache/delete", {"keys": [entry_id]})
        assert [await here.has(text) for text in (TEXT, "What is a kettle for?")] == [False, True]
        while not (await here.get("/admin/cache/stats"))["tenants"]:
            pass  # which namespaces there are is written in the background
        await here.post("/cache/flushall")
        assert not await here.has("What is a kettle for?")


async def test_while_the_store_is_away_that_is_said(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream) as gateway,
        running_admin(tmp_path, ask_cache=gateway.ask_cache) as admin,
    ):
        await gateway.valkey.stop()
        here = Both(gateway, admin)
        refused = await here.post("/admin/cache/entries", {}, status=503)
        assert refused["error"]["code"] == "cache_unavailable"
        await here.post("/admin/cache/invalidate", {"everything": True, "dry_run": False}, status=503)
        record = (await admin.audited())[-1]
        assert (record["action"], record["outcome"]) == ("cache.invalidate", "unknown")
