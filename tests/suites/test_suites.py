"""What clients that nobody here wrote can do at a model server, they can do at the gateway: cold, and warm."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from .environment import Unavailable
from .parts import TRIALS, Parts, running_parts
from .suites import Suite
from .table import FILE, features, versions

RUN = "run `python -m tests.suites`"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def parts(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Parts]:
    pytest.importorskip("xllamacpp", reason="llama.cpp needs the xllamacpp wheel, which this platform lacks")
    async with running_parts(tmp_path_factory.mktemp("suites")) as running:
        yield running


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("suite", "server"), [pytest.param(*trial, id=f"{trial[0].client}-{trial[1]}") for trial in TRIALS]
)
async def test_what_works_at_the_server_works_through_the_gateway_cold_and_warm(
    suite: Suite, server: str, parts: Parts, tmp_path: Path
) -> None:
    try:
        rows, faults = await parts.tried(suite, server, folder=tmp_path)
    except Unavailable as missing:
        pytest.skip(f"{suite.client} IS NOT TESTED: {missing}")
    assert faults == []
    listed = features(FILE.read_text(encoding="utf-8"), client=suite.client, server=server)
    assert [row.feature for row in rows] == listed, f"{FILE.name} lists others: {RUN}"


def test_the_table_names_what_is_locked() -> None:
    document = FILE.read_text(encoding="utf-8")
    assert [line for line in versions() if line not in document] == [], f"{FILE.name} is old: {RUN}"
    for suite, server in TRIALS:
        assert features(document, client=suite.client, server=server), f"{FILE.name} lacks a trial: {RUN}"
