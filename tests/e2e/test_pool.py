"""Pools of a running deployment: what admins and events change, what the file says, and that all workers follow."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.gateway.serving import descendants
from tests.scripted import ScriptedUpstream

from .deployment import Deployment, until
from .pool_deployment import backends, deployed_pools, until_backend, write_config


def pool(*upstreams: ScriptedUpstream, **more: Any) -> dict[str, Any]:
    members = [
        {"url": upstream.base_url, "name": name, "model": "m", "revision": "r1"}
        for upstream, name in zip(upstreams, "abc", strict=False)
    ]
    return {"m1": {"members": members, **more}}


async def asked(echogate: Deployment, key: str, times: int) -> set[str]:
    """The backends that answered so many questions, each a new one on a new connection."""
    replies = await asyncio.gather(
        *(
            echogate.ask(f"question {number}", key=key, headers={"x-cache-mode": "off"})
            for number in range(times)
        )
    )
    assert {reply.status_code for reply in replies} == {200}
    return {reply.headers["x-echogate-backend"] for reply in replies}


async def seen_by_all(echogate: Deployment, names: set[str], *, within_s: float) -> None:
    """Until each worker has these backends and no others."""

    async def is_so() -> bool:
        told = await backends(echogate)
        return told.keys() == names and all(len(each["workers"]) == 2 for each in told.values())

    await until(is_so, within_s=within_s)


async def test_what_admins_change_is_in_force_in_all_workers(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        ScriptedUpstream() as c,
        deployed_pools(tmp_path, pool(a, b), server={"workers": 2}) as echogate,
    ):
        key = (await echogate.create_key())["key"]
        admin = echogate.admin
        assert await asked(echogate, key, 20) == {"a", "b"}

        drained = (await admin.post("/admin/backends/a/drain")).json()
        assert drained == {
            "model": "m1",
            "differences": ["~ a drained (admin)"],
            "not_acknowledged_by": [],
        }
        assert await asked(echogate, key, 20) == {"b"}
        explained = (await admin.post("/admin/backends/route/explain", json={"model": "m1"})).json()
        assert (explained["backend"], explained["passed_over"]) == ("b", {"a": "drained: admin"})

        await admin.post("/admin/backends/b/drain")
        ready = (await admin.get("/health/ready")).json()
        assert ready == {"status": "degraded", "reasons": ["no usable member serves the model 'm1'"]}

        body = {"model": "m1", "url": c.base_url, "upstream_model": "m", "revision": "r1"}
        assert (await admin.put("/admin/backends/new", json=body)).status_code == 200
        assert await asked(echogate, key, 20) == {"new"}
        diff = (await admin.get("/admin/backends/diff")).json()["data"][0]["differences"]
        assert diff == ["+ new added", "~ a drained (admin)", "~ b drained (admin)"]

        refused = await admin.put("/admin/backends/spy", json=body | {"api_key_env": "HOME"})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "api_key_env")

        await admin.post("/admin/backends/reset", json={})
        assert (await admin.get("/admin/backends/diff")).json() == {"data": []}
        assert (await backends(echogate)).keys() == {"a", "b"}
        audit = (await admin.get("/admin/audit")).json()["data"]
        acts = [entry["action"] for entry in audit]
        assert acts[-4:] == ["backend.drain", "backend.drain", "backend.put", "pool.reset"]


async def test_what_admins_changed_outlives_a_restart(tmp_path: Path) -> None:
    async with ScriptedUpstream() as a, ScriptedUpstream() as b:
        async with deployed_pools(tmp_path, pool(a, b)) as echogate:
            await echogate.admin.post("/admin/backends/a/drain")
        async with deployed_pools(tmp_path, pool(a, b)) as echogate:
            key = (await echogate.create_key())["key"]
            assert await asked(echogate, key, 10) == {"b"}


async def test_a_server_taken_out_sees_no_more_probes(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        deployed_pools(tmp_path, pool(a, b)) as echogate,
    ):
        await until_backend(echogate, "a", is_usable=True)
        assert (await echogate.admin.delete("/admin/backends/a")).status_code == 200
        await asyncio.sleep(0.3)  # what was under way
        before, before_b = len(a.requests), len(b.requests)

        async def others_are_probed() -> bool:
            return len(b.requests) > before_b + 5

        await until(others_are_probed, within_s=20)
        assert len(a.requests) == before


async def test_the_file_is_followed_and_what_cannot_work_is_refused(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        deployed_pools(tmp_path, pool(a), server={"workers": 2}) as echogate,
    ):
        await seen_by_all(echogate, {"a"}, within_s=10)

        write_config(tmp_path, pool(a, b), server={"workers": 2})
        await seen_by_all(echogate, {"a", "b"}, within_s=10)

        echogate.config.write_text("pools: {m1: [not-a-url]}", encoding="utf-8")

        async def is_refused() -> bool:
            return await echogate.metric("echogate_config_reloads_total", outcome="refused") >= 1

        await until(is_refused, within_s=10)
        assert (await backends(echogate)).keys() == {"a", "b"}

        write_config(tmp_path, pool(a), server={"workers": 2})
        os.kill(echogate.child.pid, signal.SIGHUP)
        await seen_by_all(echogate, {"a"}, within_s=10)


async def test_an_event_drains_and_restores_only_what_events_drained(tmp_path: Path) -> None:
    secret = "of the cloud"
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        deployed_pools(
            tmp_path, pool(a, b), admin={"events_secret_env": "CLOUD"}, env={"CLOUD": secret}
        ) as echogate,
    ):
        await until_backend(echogate, "a", is_usable=True)

        async def send(event: dict[str, Any], *, with_: str = secret, age_s: int = 0) -> tuple[int, Any]:
            body, moment = json.dumps(event), str(int(time.time()) - age_s)
            sign = hmac.new(with_.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()
            headers = {"authorization": "", "x-echogate-signature": f"t={moment},v1={sign}"}
            reply = await echogate.admin.post("/admin/events", content=body, headers=headers)
            return reply.status_code, reply.json()

        notice = {"type": "EC2 Spot Instance Interruption Warning", "subject": "vms/a"}
        assert (await send(notice, with_="guessed"))[0] == 401
        assert (await send(notice, age_s=1000))[0] == 401
        assert (await backends(echogate))["a"]["drained_for"] is None

        assert await send(notice) == (200, {"action": "drain", "cause": "preemption", "backends": ["a"]})
        assert (await send(notice))[0] == 200
        await echogate.admin.post("/admin/backends/b/drain")
        told = await backends(echogate)
        assert [told[name]["drained_for"] for name in "ab"] == ["preemption", "admin"]

        over = {"type": "cloud.instance.recovered", "data": {"host": "127.0.0.1"}}
        assert await send(over) == (200, {"action": "restore", "cause": None, "backends": ["a"]})
        told = await backends(echogate)
        assert [told[name]["drained_for"] for name in "ab"] == [None, "admin"]
        assert (await send({"type": "weather.report", "subject": "a"}))[1]["action"] == "none"


async def test_a_name_is_looked_up_and_each_address_is_a_backend(tmp_path: Path) -> None:
    async with ScriptedUpstream() as a:
        url = f"http://localhost:{a.port}"
        members = [{"url": url, "name": "a", "model": "m", "revision": "r1", "discover": "dns"}]
        async with deployed_pools(tmp_path, {"m1": {"members": members}}) as echogate:
            key = (await echogate.create_key())["key"]
            assert "a-127.0.0.1" in await backends(echogate)
            assert await asked(echogate, key, 3) <= {"a-127.0.0.1"} | (await backends(echogate)).keys()


async def test_what_a_real_server_says_of_itself_is_known(tmp_path: Path, llamas: tuple[str, str]) -> None:
    members = [{"url": llamas[0], "name": "llama", "model": "smollm2"}]
    async with deployed_pools(tmp_path, {"m1": {"members": members}}) as echogate:

        async def is_known() -> bool:
            said = (await backends(echogate))["llama"]["signals"]
            return said is not None and said["dialect"] == "llama.cpp"

        await until(is_known, within_s=20)
        assert await echogate.metric("echogate_backend_scrape_age_seconds", backend="llama") < 10
        requests = "echogate_backend_engine_requests"
        assert await echogate.metric(requests, backend="llama", state="running") == 0
        assert (await echogate.admin.get("/admin/backends/findings")).json()["heard"] == ["llama"]


async def test_a_worker_that_comes_later_has_what_admins_changed(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as a,
        ScriptedUpstream() as b,
        deployed_pools(tmp_path, pool(a, b), server={"workers": 2}) as echogate,
    ):
        await echogate.admin.post("/admin/backends/a/drain")
        worker = next(
            pid for pid, command in descendants(echogate.child.pid).items() if "spawn_main" in command
        )
        os.kill(worker, signal.SIGKILL)

        async def is_replaced() -> bool:
            restarts = await echogate.metric("echogate_worker_restarts_total")
            return restarts >= 1 and len((await backends(echogate))["a"]["workers"]) == 2

        await until(is_replaced, within_s=30)
        views = (await backends(echogate))["a"]
        assert (views["state"], views["is_usable"]) == ("drained", False)
