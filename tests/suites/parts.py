"""What the suites are tried on: a real llama.cpp and the obedient server, and a real `echogate serve` before both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.backends.llama import ALIAS, running_llama
from tests.e2e.deployment import Deployment
from tests.e2e.pool_deployment import deployed_pools

from .obedient import Obedient
from .suites import SUITES, Place, Row, Suite, judged, run

LLAMA, OBEDIENT = "llama.cpp", "obedient"
# Every suite on the real model; on the obedient server those that call tools.
TRIALS = (
    *((suite, LLAMA) for suite in SUITES),
    *((suite, OBEDIENT) for suite in SUITES if suite.calls_tools),
)
_CONTEXT = 8192


@dataclass(frozen=True)
class Parts:
    echogate: Deployment
    # By server: its base URL and its model, which has the same name in public.
    servers: dict[str, tuple[str, str]]

    async def tried(self, suite: Suite, server: str, *, folder: Path) -> tuple[list[Row], list[str]]:
        """Its rows and faults. Raises `Unavailable`."""
        base_url, model = self.servers[server]
        key = (await self.echogate.create_key(tenant=f"{suite.client}-{model}"))["key"]
        lines = await run(
            suite,
            direct=Place(f"{base_url}/v1", "none"),
            gateway=Place(f"{self.echogate.url}/v1", key),
            model=model,
            folder=folder,
        )
        return judged(suite, server, lines)


@asynccontextmanager
async def running_parts(folder: Path) -> AsyncIterator[Parts]:
    with running_llama(context=_CONTEXT) as llama:
        async with Obedient() as obedient:
            servers = {LLAMA: (llama.base_url, ALIAS), OBEDIENT: (obedient.base_url, obedient.model)}
            pools = {model: [base_url] for base_url, model in servers.values()}
            async with deployed_pools(folder, pools) as echogate:
                yield Parts(echogate, servers)
