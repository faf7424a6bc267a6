"""A whole deployment under admins' hands: nothing secret is anywhere afterwards, and changes are in force at once."""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.store.client import StoreClient
from tests.collector import Collector, collecting
from tests.e2e.deployment import Deployment, deployed
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually

SHOWN = ("/metrics", "/admin/keys", "/admin/admin-keys", "/admin/export", "/admin/audit?limit=1000")
PROMPT, ANSWER = "What is the zyzzyva prompt about?", "The quokka answer."


@asynccontextmanager
async def running(
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[tuple[Deployment, ScriptedUpstream, Collector]]:
    """Two workers with a store of their own, traced in full."""
    with tempfile.TemporaryDirectory(prefix="eg-") as folder:
        async with ScriptedUpstream() as upstream, collecting(monkeypatch) as collector:
            variables = {name: value for name, value in os.environ.items() if name.startswith("OTEL_")}
            async with deployed(
                Path(folder) / "data", upstream.base_url, workers=2, variables=variables
            ) as echogate:
                yield echogate, upstream, collector


@pytest.mark.full
async def test_no_secret_is_anywhere_after_a_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a key in logs, traces, metrics, errors, audit log or store, nor a prompt or answer outside the cache."""
    async with running(monkeypatch) as (echogate, upstream, collector):
        told: list[str] = []
        secrets = await acts(echogate, upstream, told)
        told += [(await echogate.admin.get(path)).raise_for_status().text for path in SHOWN]
        store = await dump(echogate.data_dir)
        await eventually(lambda: len(collector.spans) > 20)
        written = (echogate.data_dir.parent / "serve.log").read_text()
        spans = "".join(map(str, collector.spans))
    assert '"event":"request"' in written
    assert "echogate.key_id" in spans
    assert len(told) > 15
    for secret in secrets:
        for place in (written, spans, *told):
            assert secret not in place
        assert [name for name, content in store.items() if secret.encode() in content] == []
    for said in (PROMPT, "zyzzyva", ANSWER, "quokka"):
        assert said not in written + spans
        for place in told:
            assert said not in place
        holding = [name for name, content in store.items() if said.encode() in content]
        assert all(b"}:e:" in name for name in holding), holding  # entries of the cache
    assert any(b"quokka" in content for content in store.values())  # so that the scan is known to find it


async def acts(echogate: Deployment, upstream: ScriptedUpstream, told: list[str]) -> list[str]:
    """What admins and applications do on a busy day; the secrets it brought about. Refusals go to `told`."""
    api = echogate.admin
    once = {"idempotency-key": "k1"}
    made = (await api.post("/admin/keys", json={"tenant": "acme"}, headers=once)).json()
    again = (await api.post("/admin/keys", json={"tenant": "acme"}, headers=once)).json()
    assert again == made
    rotated = (await api.post(f"/admin/keys/{made['id']}/rotate")).json()
    limited = (
        await api.post("/admin/keys", json={"tenant": "acme", "limits": {"requests_per_min": 1}})
    ).json()
    viewer = (await api.post("/admin/admin-keys", json={"role": "viewer"})).json()
    owner = str(api.headers["authorization"]).removeprefix("Bearer ")
    for method, path, headers in (
        ("POST", "/admin/keys", {"authorization": f"Bearer {viewer['key']}"}),
        ("GET", "/admin/keys", {"authorization": f"Bearer {owner}x"}),
        ("GET", "/admin/keys", {"authorization": f"Basic {owner}"}),
        ("GET", f"/admin/keys/{made['key']}", {}),
    ):
        told.append((await api.request(method, path, json={"tenant": "t"}, headers=headers)).text)
    body = {"message": {"role": "assistant", "content": ANSWER}, "index": 0, "finish_reason": "stop"}
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    upstream.reply_json({"id": "1", "object": "chat.completion", "choices": [body], "usage": usage})
    for key in (made["key"], rotated["key"], limited["key"], limited["key"]):
        reply = await echogate.ask(PROMPT, key=key)
        if reply.status_code != 200:
            told.append(reply.text)
    wrong = (made["key"][:-1] + "!", made["key"] + "x", "Bearer", rotated["key"][:-5])
    told += [(await echogate.ask(PROMPT, key=key)).text for key in wrong]
    upstream.reply_json({"error": {"message": f"not with Bearer {made['key']}"}}, status=400)
    told.append((await echogate.ask("another", key=made["key"])).text)
    upstream.reply(b"<html>", status=500, times=4)
    past_the_cache = {"x-cache-mode": "off"}
    told.append((await echogate.ask(PROMPT, key=rotated["key"], headers=past_the_cache)).text)
    async with httpx.AsyncClient(base_url=echogate.url, trust_env=False, timeout=20) as client:
        told += [
            (await client.get("/v1/me", headers={"x-api-key": key})).text
            for key in (made["key"], limited["key"])
        ]
        malformed = await client.post(
            "/v1/chat/completions", content=f'{{"messages": "{PROMPT}"', headers={"x-api-key": rotated["key"]}
        )
        told.append(malformed.text)
    await api.post(f"/admin/keys/{made['id']}/disable")
    told.append((await echogate.ask(PROMPT, key=rotated["key"])).text)
    await api.delete(f"/admin/keys/{limited['id']}")
    plaintexts = (made["key"], rotated["key"], limited["key"], viewer["key"], owner)
    audit_key = (echogate.data_dir / "audit.key").read_text().strip()
    return [*(plaintext.split("-", 2)[2] for plaintext in plaintexts), audit_key]


async def dump(data_dir: Path) -> dict[bytes, bytes]:
    """All that the store holds, by key, and its files."""
    files = [file for file in (data_dir / "store").rglob("*") if file.is_file() and not _holds_entries(file)]
    found = {str(file).encode(): file.read_bytes() for file in files}
    socket = next((data_dir / "store").glob("*.sock"))
    async with StoreClient.open(f"unix://{socket}", deadline_s=5.0) as store:
        for name in await store.execute("KEYS", "*"):
            kind = (await store.execute("TYPE", name)).decode()
            read = {
                "string": ("GET", name),
                "hash": ("HGETALL", name),
                "zset": ("ZRANGE", name, 0, -1, "WITHSCORES"),
                "set": ("SMEMBERS", name),
                "list": ("LRANGE", name, 0, -1),
                "stream": ("XRANGE", name, "-", "+"),
            }[kind]
            found[name] = b"\0".join([name, *flat(await store.execute(*read))])
    return found


def _holds_entries(file: Path) -> bool:
    """The append-only files do: they are the commands that wrote them."""
    return "appendonly" in str(file)


def flat(value: Any) -> Iterator[bytes]:
    match value:
        case bytes():
            yield value
        case dict():
            for pair in value.items():
                yield from flat(list(pair))
        case list() | tuple() | set():
            for each in value:
                yield from flat(each)
        case _:
            yield str(value).encode()


@pytest.mark.full
async def test_changes_are_in_force_in_every_worker_when_the_admin_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as (echogate, _, _):
        api = echogate.admin
        key = await echogate.create_key()

        async def statuses() -> set[int]:
            """Of new connections, which go to either worker."""
            replies = await asyncio.gather(*[echogate.ask("q", key=key["key"]) for _ in range(12)])
            return {reply.status_code for reply in replies}

        assert await statuses() == {200}
        for path in (f"keys/{key['id']}", "services/acme/default", "tenants/acme"):
            change = (await api.post(f"/admin/{path}/disable")).json()["change"]
            assert change == {"replicated": True, "id": change["id"], "not_acknowledged_by": []}
            assert await statuses() == {401}
            await api.post(f"/admin/{path}/enable")
            assert await statuses() == {200}
        narrowed = {"policy": {"models": ["another"]}}
        await api.patch("/admin/tenants/acme", json=narrowed)
        assert await statuses() == {404}
        await api.patch(
            "/admin/tenants/acme", json={"policy": {"models": None}, "limits": {"requests_per_min": 6}}
        )
        assert await statuses() == {200, 429}
        rotated = (await api.post(f"/admin/keys/{key['id']}/rotate", json={"grace_s": 0})).json()
        assert await statuses() == {401}
        assert rotated["key"] != key["key"]


@pytest.mark.full
async def test_a_burst_of_failed_logins_at_both_workers_is_one_audit_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(monkeypatch) as (echogate, _, _):
        wrong = "eg-" + "a" * 12 + "-" + "b" * 43
        await asyncio.gather(*[echogate.ask("q", key=wrong) for _ in range(20)])
        async with asyncio.timeout(80):  # a burst is told when its minute is over
            while True:
                records = (await echogate.admin.get("/admin/audit")).json()["data"]
                if records[-1]["action"] == "auth.failures":
                    break
                await asyncio.sleep(0.5)
        burst = records[-1]
        assert (burst["target"], burst["after"]["failures"]) == (f"key {'a' * 12}", 20)
        assert json.dumps(burst).count("b" * 43) == 0
