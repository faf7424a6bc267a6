"""Limits while their store is away, by the deployment's policy, and how that shows."""

from __future__ import annotations

from typing import Any

import pytest

from auth import Limits
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream


async def ready(gateway: RunningGateway) -> dict[str, Any]:
    return dict((await gateway.client.get("/health/ready")).json())


def shared(gateway: RunningGateway) -> float:
    families = {family.name: family for family in gateway.plane.metrics.snapshot().families}
    return families["echogate_limits_shared"].samples[0].value


@pytest.mark.parametrize(
    ("policy", "statuses"),
    [("local", [200, 200, 429]), ("closed", [503, 503, 503]), ("open", [200, 200, 200])],
)
async def test_a_policy_holds_while_the_store_is_away_and_is_told(policy: str, statuses: list[int]) -> None:
    async with (
        ScriptedUpstream() as upstream,
        running_gateway(upstream, limits={"store_gone": policy}) as gateway,
    ):
        key = await gateway.new_key(limits=Limits(requests_per_min=2))
        assert (await gateway.client.get("/v1/models", headers={"x-api-key": key})).status_code == 200
        assert shared(gateway) == 1
        await gateway.valkey.kill()
        replies = [await gateway.chat(f"q{number}", key=key) for number in range(3)]
        assert [reply.status_code for reply in replies] == statuses
        if policy == "closed":
            assert replies[0].json()["error"]["code"] == "limits_unavailable"
            assert replies[0].headers["retry-after"] == "1"
        told = await ready(gateway)
        assert (told["status"], shared(gateway)) == ("degraded", 0)
        assert f"limits are not shared while their store is away: {policy}" in told["reasons"]


async def test_when_the_store_is_back_limits_are_shared_again() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream) as gateway:
        await gateway.chat()
        await gateway.valkey.kill()
        await gateway.chat("another")
        assert shared(gateway) == 0
        await gateway.valkey.start()
        for number in range(1000):
            await gateway.chat(f"q{number}")
            if shared(gateway):
                return
        pytest.fail("limits were not shared again")
