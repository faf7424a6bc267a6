"""Pools of a running deployment: what admins and events change, what the file says, and that all workers follow."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import signal
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from tests.gateway.serving import descendants
from tests.scripted import ScriptedUpstream

from .deployment import Deployment, until
from .pool_deployment import backends, deployed_pools, until_backend, write_config

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLOUD_SECRET = "of the cloud"
SECTIONS: dict[str, Any] = {"server": {"workers": 2}, "admin": {"events_secret_env": "CLOUD"}}


@dataclass(frozen=True)
class House:
    """A deployment with two workers over two scripted servers, `a` and `b`, and a name, `c`."""

    folder: Path
    echogate: Deployment
    key: str
    a: ScriptedUpstream
    b: ScriptedUpstream
    c: ScriptedUpstream

    @property
    def pools(self) -> dict[str, Any]:
        name = {
            "url": f"http://localhost:{self.c.port}",
            "name": "c",
            "model": "m",
            "revision": "r1",
            "discover": "dns",
        }
        return {"m1": {"members": [member("a", self.a), member("b", self.b)]}, "m2": {"members": [name]}}

    def write(self, pools: dict[str, Any]) -> None:
        write_config(self.folder, pools, **SECTIONS)

    async def asked(self, times: int) -> set[str]:
        """The backends that answered so many questions, each a new one on a new connection."""
        replies = await asyncio.gather(
            *(
                self.echogate.ask(f"question {number}", key=self.key, headers={"x-cache-mode": "off"})
                for number in range(times)
            )
        )
        assert {reply.status_code for reply in replies} == {200}
        return {reply.headers["x-echogate-backend"] for reply in replies}

    async def members(self) -> set[str]:
        """Of the pool `m1`, where all workers see the same."""
        told = [each for each in (await backends(self.echogate)).values() if each["model"] == "m1"]
        return {each["name"] for each in told if len(each["workers"]) == 2}

    async def until_members(self, *names: str) -> None:
        async def is_so() -> bool:
            return await self.members() == set(names)

        await until(is_so, within_s=10)


def member(name: str, upstream: ScriptedUpstream) -> dict[str, Any]:
    return {"url": upstream.base_url, "name": name, "model": "m", "revision": "r1"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("pools")
    async with ScriptedUpstream() as a, ScriptedUpstream() as b, ScriptedUpstream() as c:
        nobody: Any = None
        pools = House(folder, nobody, "", a, b, c).pools
        async with deployed_pools(folder, pools, env={"CLOUD": CLOUD_SECRET}, **SECTIONS) as echogate:
            yield House(folder, echogate, (await echogate.create_key())["key"], a, b, c)


@pytest_asyncio.fixture(loop_scope="module")
async def house(shared: House) -> AsyncIterator[House]:
    """As configured, and left so."""
    yield shared
    shared.write(shared.pools)
    os.kill(shared.echogate.child.pid, signal.SIGHUP)
    await shared.echogate.admin.post("/admin/backends/reset", json={})
    await shared.until_members("a", "b")


async def test_what_admins_change_is_in_force_in_all_workers(house: House) -> None:
    admin = house.echogate.admin
    assert await house.asked(20) == {"a", "b"}

    drained = (await admin.post("/admin/backends/a/drain")).json()
    assert drained == {"model": "m1", "differences": ["~ a drained (admin)"], "not_acknowledged_by": []}
    assert await house.asked(20) == {"b"}
    explained = (await admin.post("/admin/backends/route/explain", json={"model": "m1"})).json()
    assert (explained["backend"], explained["passed_over"]) == ("b", {"a": "drained: admin"})

    body = {"model": "m1", "url": house.c.base_url, "upstream_model": "m", "revision": "r1"}
    assert (await admin.put("/admin/backends/new", json=body)).status_code == 200
    await admin.post("/admin/backends/b/drain")
    assert await house.asked(20) == {"new"}
    diff = (await admin.get("/admin/backends/diff")).json()["data"][0]["differences"]
    assert diff == ["+ new added", "~ a drained (admin)", "~ b drained (admin)"]

    await admin.post("/admin/backends/reset", json={})
    assert (await admin.get("/admin/backends/diff")).json() == {"data": []}
    assert await house.members() == {"a", "b"}
    audit = (await admin.get("/admin/audit", params={"limit": 1000})).json()["data"]
    acts = [entry["action"] for entry in audit]
    assert acts[-4:] == ["backend.drain", "backend.put", "backend.drain", "pool.reset"]


async def test_nobody_left_to_ask_shows_in_readiness(house: House) -> None:
    for name in "ab":
        await house.echogate.admin.post(f"/admin/backends/{name}/drain")
    ready = (await house.echogate.admin.get("/health/ready")).json()
    assert ready == {"status": "degraded", "reasons": ["no usable member serves the model 'm1'"]}


async def test_an_admin_cannot_have_any_variable_sent_anywhere(house: House) -> None:
    body = {"model": "m1", "url": "http://elsewhere:1", "api_key_env": "CLOUD"}
    refused = await house.echogate.admin.put("/admin/backends/spy", json=body)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "api_key_env")


async def test_a_server_taken_out_sees_no_more_probes(house: House) -> None:
    await until_backend(house.echogate, "a", is_usable=True)
    assert (await house.echogate.admin.delete("/admin/backends/a")).status_code == 200
    before, before_b = len(house.a.requests), len(house.b.requests)

    async def others_are_probed() -> bool:
        return len(house.b.requests) > before_b + 5

    await until(others_are_probed, within_s=20)
    assert len(house.a.requests) <= before + 1  # one may have been under way


async def test_the_file_is_followed_and_what_cannot_work_is_refused(house: House) -> None:
    whole = house.pools
    house.write(whole | {"m1": {"members": [member("b", house.b)]}})
    await house.until_members("b")

    house.echogate.config.write_text("pools: {m1: [not-a-url]}", encoding="utf-8")

    async def is_refused() -> bool:
        return await house.echogate.metric("echogate_config_reloads_total", outcome="refused") >= 1

    await until(is_refused, within_s=10)
    assert await house.members() == {"b"}

    house.write(whole)
    os.kill(house.echogate.child.pid, signal.SIGHUP)
    await house.until_members("a", "b")


async def test_an_event_drains_and_restores_only_what_events_drained(house: House) -> None:
    async def send(event: dict[str, Any], *, secret: str = CLOUD_SECRET, age_s: int = 0) -> tuple[int, Any]:
        body, moment = json.dumps(event), str(int(time.time()) - age_s)
        sign = hmac.new(secret.encode(), f"{moment}.{body}".encode(), hashlib.sha256).hexdigest()
        headers = {"authorization": "", "x-echogate-signature": f"t={moment},v1={sign}"}
        reply = await house.echogate.admin.post("/admin/events", content=body, headers=headers)
        return reply.status_code, reply.json()

    async def causes() -> list[str | None]:
        told = await backends(house.echogate)
        return [told[name]["drained_for"] for name in "ab"]

    notice = {"type": "EC2 Spot Instance Interruption Warning", "subject": "vms/a"}
    assert (await send(notice, secret="guessed"))[0] == 401
    assert (await send(notice, age_s=1000))[0] == 401
    assert await causes() == [None, None]

    assert await send(notice) == (200, {"action": "drain", "cause": "preemption", "backends": ["a"]})
    assert (await send(notice))[0] == 200
    await house.echogate.admin.post("/admin/backends/b/drain")
    assert await causes() == ["preemption", "admin"]

    over = {"type": "cloud.instance.recovered", "data": {"host": "127.0.0.1"}}
    assert await send(over) == (200, {"action": "restore", "cause": None, "backends": ["a"]})
    assert await causes() == [None, "admin"]
    assert (await send({"type": "weather.report", "subject": "a"}))[1]["action"] == "none"


async def test_each_address_of_a_name_is_a_backend(house: House) -> None:
    assert "c-127.0.0.1" in await backends(house.echogate)


async def test_a_worker_that_comes_later_has_what_admins_changed(house: House) -> None:
    await house.echogate.admin.post("/admin/backends/a/drain")
    worker = next(
        pid for pid, command in descendants(house.echogate.child.pid).items() if "spawn_main" in command
    )
    os.kill(worker, signal.SIGKILL)

    async def is_replaced() -> bool:
        restarts = await house.echogate.metric("echogate_worker_restarts_total")
        return restarts >= 1 and await house.members() == {"a", "b"}

    await until(is_replaced, within_s=30)
    told = (await backends(house.echogate))["a"]
    assert (told["state"], told["is_usable"]) == ("drained", False)


async def test_signals_of_a_real_server_are_known_and_drains_outlive_a_restart(
    tmp_path: Path, llamas: tuple[str, str]
) -> None:
    members = [{"url": url, "name": name, "model": "smollm2"} for url, name in zip(llamas, "xy", strict=True)]
    pools = {"m1": {"members": members}}
    async with deployed_pools(tmp_path, pools) as echogate:

        async def is_known() -> bool:
            said = (await backends(echogate))["x"]["signals"]
            return said is not None and said["dialect"] == "llama.cpp"

        await until(is_known, within_s=20)
        assert await echogate.metric("echogate_backend_scrape_age_seconds", backend="x") < 10
        assert await echogate.metric("echogate_backend_engine_requests", backend="x", state="running") == 0
        assert (await echogate.admin.get("/admin/backends/findings")).json()["heard"] == ["x", "y"]
        await echogate.admin.post("/admin/backends/x/drain")
    async with deployed_pools(tmp_path, pools) as echogate:
        assert (await until_backend(echogate, "x"))["state"] == "drained"
