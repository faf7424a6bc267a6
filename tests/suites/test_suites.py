"""What clients that nobody here wrote can do at a real model server, they can do at the gateway: cold, and warm."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.backends.llama import ALIAS, Llama, running_llama
from tests.e2e.deployment import Deployment
from tests.e2e.pool_deployment import deployed_pools

from .environment import Unavailable
from .suites import SUITES, Place, Suite, judged, run

pytestmark = [pytest.mark.full, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="module")]


@pytest.fixture(scope="module")
def llama() -> Iterator[Llama]:
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    with running_llama(context=8192) as server:
        yield server


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def echogate(llama: Llama, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Deployment]:
    folder = tmp_path_factory.mktemp("suites")
    async with deployed_pools(folder, {ALIAS: [llama.base_url]}) as deployment:
        yield deployment


@pytest.mark.parametrize("suite", SUITES, ids=lambda suite: suite.client)
async def test_what_works_at_the_server_works_through_the_gateway_cold_and_warm(
    suite: Suite, llama: Llama, echogate: Deployment, tmp_path: Path
) -> None:
    key = (await echogate.create_key(tenant=suite.client))["key"]
    direct = Place(f"{llama.base_url}/v1", "none", ALIAS)
    gateway = Place(f"{echogate.url}/v1", key, ALIAS)
    try:
        lines = await run(suite, direct=direct, gateway=gateway, folder=tmp_path)
    except Unavailable as missing:
        pytest.skip(f"{suite.client} IS NOT TESTED: {missing}")
    rows, faults = judged(suite, lines)
    for row in rows:
        print(row)
    assert faults == []
