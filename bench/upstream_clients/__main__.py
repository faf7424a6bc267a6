"""Which HTTP client may speak to model servers: CPU per call of pyreqwest and aiohttp, and whether each behaves.

`python -m bench.upstream_clients` prints a table and, as its last line, one JSON object. CPU is user + system time of
this process with all its threads; the server runs in a process of its own. Both clients run on uvloop, as they would
under uvicorn.
"""

from __future__ import annotations

import json

import uvloop

from tests.scripted import ScriptedUpstream

from .behaviour import CHECKS
from .clients import CLIENTS
from .cost import measure


async def main() -> None:
    behaviour: dict[str, dict[str, str]] = {check.__name__: {} for check in CHECKS}
    async with ScriptedUpstream() as upstream:
        for check in CHECKS:
            for name, make in CLIENTS.items():
                behaviour[check.__name__][name] = await check(make, upstream)
    cost = await measure()

    print(f"{'':34}" + "".join(f"{name:38}" for name in CLIENTS))
    for kind in ("json_min_us", "json_median_us", "sse_min_us", "sse_median_us"):
        print(f"{kind:34}" + "".join(f"{cost[name][kind]:<38}" for name in CLIENTS))
    for what, seen in behaviour.items():
        print(f"{what:34}" + "".join(f"{seen[name]:38}" for name in CLIENTS))
    print(json.dumps({"bench": "upstream_clients", "cpu": cost, "behaviour": behaviour}))


if __name__ == "__main__":
    uvloop.run(main())
