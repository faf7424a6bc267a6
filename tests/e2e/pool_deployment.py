"""A whole deployment over pools of a test's own: the real command `echogate serve`, without an embedding model."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from gateway.embedded.child import running

from .deployment import Deployment, environment, serve, until

_READY_S = 90.0


def write_config(folder: Path, pools: Mapping[str, Any], **sections: Any) -> Path:
    """A configuration file in `folder`; written anew, it is the same file with other pools."""
    settings = {
        "pools": dict(pools),
        "data_dir": str(folder / "data"),
        "server": {"bind": "127.0.0.1:0", "grace_s": 2, **sections.pop("server", {})},
        "admin": {"bind": "127.0.0.1:0", **sections.pop("admin", {})},
        "store": {"deadline_ms": 5000},
        "cache": {"embedder": {"kind": "none"}},
        "upstream": {"poll_interval_ms": 100, "discovery_interval_s": 1, **sections.pop("upstream", {})},
        **sections,
    }
    config = folder / "echogate.yaml"
    config.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return config


@asynccontextmanager
async def deployed_pools(
    folder: Path, pools: Mapping[str, Any], *, env: Mapping[str, str] | None = None, **sections: Any
) -> AsyncIterator[Deployment]:
    config = write_config(folder, pools, **sections)
    async with AsyncExitStack() as stack:
        child = await stack.enter_async_context(
            running(
                "echogate serve", serve(config), log=folder / "serve.log", env=environment() | dict(env or {})
            )
        )
        said = await child.until_says(re.compile(r'^{.*"event":"serving".*}$'), within_s=_READY_S)
        facts = json.loads(said[0])
        key = (folder / "data" / "admin.key").read_text(encoding="ascii").strip()
        admin = await stack.enter_async_context(
            httpx.AsyncClient(
                base_url=facts["admin"],
                headers={"authorization": f"Bearer {key}"},
                timeout=20,
                trust_env=False,
            )
        )
        yield Deployment(child, config, folder / "data", facts["data_plane"], admin)


async def backends(echogate: Deployment) -> dict[str, dict[str, Any]]:
    """By name, as the admin plane tells of them."""
    for _ in range(10):
        reply = await echogate.admin.get("/admin/backends")
        if (
            reply.status_code != 503
        ):  # no worker answered in time: an overloaded machine is what some tests are about
            break
    reply.raise_for_status()
    return {each["name"]: each for each in reply.json()["data"]}


async def until_backend(
    echogate: Deployment, name: str, *, within_s: float = 20.0, **facts: Any
) -> dict[str, Any]:
    """Wait until these facts are told of it; all that is told then."""
    found: dict[str, Any] = {}

    async def is_so() -> bool:
        found.clear()
        found.update((await backends(echogate)).get(name, {}))
        return bool(found) and all(found[fact] == value for fact, value in facts.items())

    await until(is_so, within_s=within_s)
    return found
