"""Two hosts over one store: what admins change of the pools on one, the other follows."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.scripted import ScriptedUpstream
from tests.valkey import running_valkey

from .pool_deployment import deployed_pools, until_backend


async def test_another_host_follows_what_admins_change(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.mkdir()
    (other / "data").mkdir(parents=True, mode=0o700)
    async with ScriptedUpstream() as a, ScriptedUpstream() as b, running_valkey() as valkey:
        members = [
            {"url": upstream.base_url, "name": name, "model": "m", "revision": "r1"}
            for name, upstream in (("a", a), ("b", b))
        ]
        pools = {"m1": {"members": members}}
        # Looking by itself would come too late for this test: it is told.
        shared = {
            "store": {"durable": valkey.url, "cache": valkey.url, "deadline_ms": 5000},
            "upstream": {"discovery_interval_s": 300},
        }
        async with deployed_pools(one, pools, **shared) as here:
            for key in ("admin.key", "audit.key"):  # which the hosts of a deployment share
                shutil.copy(one / "data" / key, other / "data" / key)
            async with deployed_pools(other, pools, **shared) as there:
                await here.admin.post("/admin/backends/a/drain")
                await until_backend(there, "a", state="drained", within_s=5)
                (await there.admin.post("/admin/backends/reset", json={})).raise_for_status()
                await until_backend(here, "a", state="active", within_s=5)
