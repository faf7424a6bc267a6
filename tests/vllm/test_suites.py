"""The official SDK over a real vLLM: what it can do directly it can do through the gateway, cold and warm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.e2e.pool_deployment import deployed_pools
from tests.suites.suites import SUITES, Place, judged, run

from .server import MODEL, Vllm

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(420)]

# The model says gibberish without an end: it is given two words to choose from, where there is a way to say so.
_ENDLESS = dict.fromkeys(("response", "response_stream"), "the model goes on until its limit")
(OPENAI,) = (
    replace(
        suite,
        asked_anew={**suite.asked_anew, **_ENDLESS},
        options={"extra_body": {"structured_outputs": {"choice": ["yes", "no"]}}},
    )
    for suite in SUITES
    if suite.client == "openai-python"
)


async def test_the_sdk_sees_the_same_directly_and_through_the_gateway(tmp_path: Path, vllm: Vllm) -> None:
    async with deployed_pools(tmp_path, {MODEL: [vllm.base_url]}) as echogate:
        key = (await echogate.create_key())["key"]
        lines = await run(
            OPENAI,
            direct=Place(f"{vllm.base_url}/v1", "none"),
            gateway=Place(f"{echogate.url}/v1", key),
            model=MODEL,
            folder=tmp_path,
        )
    rows, faults = judged(OPENAI, "vllm", lines)
    for row in rows:
        print(row)
    assert faults == []
    assert {"chat", "chat_stream", "completion", "completion_stream"} <= {
        row.feature for row in rows if row.cold == "yes"
    }
