"""Trust from the outside: a real `serve` of two workers, its commands, and its model server."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.deployment import Deployment, deployed, environment, until
from tests.scripted import ScriptedUpstream

ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"


async def command(echogate: Deployment, *arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, "--config", str(echogate.config), "--json",
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    said, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(said)


async def outcomes(echogate: Deployment, key: str, text: str) -> set[str]:
    """Of enough requests for both workers to have had some."""
    only = {"cache-control": "only-if-cached"}
    replies = await asyncio.gather(*(echogate.ask(text, key=key, headers=only) for _ in range(12)))
    return {reply.headers["x-cache"] for reply in replies}


async def stored(echogate: Deployment, key: str, text: str) -> httpx.Response:
    """Asked, and found by both workers."""
    reply = await echogate.ask(text, key=key)

    async def is_everywhere() -> bool:
        return await outcomes(echogate, key, SAME) == {"HIT-SEMANTIC"}

    await until(is_everywhere, within_s=20)
    return reply


@pytest.mark.full
async def test_switching_explaining_reporting_and_feedback_reach_every_worker(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream() as upstream,
        deployed(tmp_path / "data", upstream.base_url, workers=2) as echogate,
    ):
        key = str((await echogate.create_key())["key"])
        first = await stored(echogate, key, ASKED)

        # switched: in force on all workers when the command returns
        await command(echogate, "cache", "mode", "acme", "default", "shadow")
        assert await outcomes(echogate, key, SAME) == {"MISS"}
        await command(echogate, "cache", "mode", "acme", "default", "configured")
        assert await outcomes(echogate, key, SAME) == {"HIT-SEMANTIC"}

        # explained: one that could be asked, and one that was
        found = await command(echogate, "explain", SAME, "--tenant", "acme", "--model", "m1")
        assert found["would"] == "MISS"  # it has no temperature, and is another partition
        past = await command(echogate, "explain", "--request-id", first.headers["x-echogate-request-id"])
        assert (past["outcome"], past["tenant"]) == ("miss", "acme")

        # reported wrong: not given again by either worker within a second
        hit = await echogate.ask(SAME, key=key)
        async with httpx.AsyncClient(base_url=echogate.url, trust_env=False) as client:
            reply = await client.post(
                "/v1/cache/feedback",
                json={"request_id": hit.headers["x-echogate-request-id"], "rating": "wrong"},
                headers={"authorization": f"Bearer {key}"},
            )
        assert reply.json()["blocked"] is True

        async def is_gone() -> bool:
            return await outcomes(echogate, key, SAME) == {"MISS"}

        await until(is_gone, within_s=5)

        async def is_counted() -> bool:
            report = (await echogate.admin.get("/admin/cache/report")).json()["data"]
            return [each["reported_wrong"] for each in report] == [1]

        await until(is_counted, within_s=10)
        (namespace,) = await command(echogate, "cache", "report", "--tenant", "acme")
        assert (namespace["namespace"], namespace["state"]) == ("default", "on")
