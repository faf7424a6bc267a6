"""`echogate calibrate --shadow`: what a deployment's own audits say of other thresholds and budgets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from gateway.evidence.desk import ShadowCurves
from gateway.ops.calibrate_text import curve_text, shadow_heading
from gateway.ops.curve import BUDGETS, Curve, Point
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream
from tests.valkey import eventually

NAMESPACE = "acme/default/m1"
SHADOW = {
    "mode": "shadow",
    "embedder": {"kind": "onnx", "model": str(prepared_model())},
    "semantic_deadline_ms": 5000,
    "audits": {"shadow_share": 1},
}
ASKED = [
    "What is the capital city of France?",
    "What's the capital city of France?",
    "Tell me the capital city of France, please.",
    "Which city is the capital of France?",
]


async def audited(gateway: RunningGateway, *, requests: int) -> dict[str, Any]:
    """The curve of the one namespace, once all of it is written."""
    for text in ASKED:
        await gateway.chat(text)
        await gateway.idle()
    await eventually(lambda: gateway.plane.cache.standing(NAMESPACE).audits == 3, within_s=10)
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(20):  # requests are counted in the background
        while not found or found[0]["points"][0]["requests"] < requests:
            found = await curves(gateway, "acme")
            await asyncio.sleep(0.01)
    (curve,) = found
    return curve


async def curves(gateway: RunningGateway, tenant: str, namespace: str | None = None) -> list[dict[str, Any]]:
    told = (await gateway.ask_cache(ShadowCurves(tenant, namespace))).told
    assert told is not None
    return list(told["data"])


async def test_audits_of_would_be_hits_make_a_curve_over_all_requests() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SHADOW) as gateway:
        found = await audited(gateway, requests=4)
    assert (found["tenant"], found["namespace"], found["model"]) == ("acme", "default", "m1")
    assert (found["audits"], found["judged_by"], found["is_corrected"]) == (3, ["agreement"], False)
    points = Curve.of(found).points
    by_threshold = [point for point in points if point.policy == "guarded"]
    assert [point.hits for point in by_threshold] == sorted((p.hits for p in by_threshold), reverse=True)
    lowest = by_threshold[0]
    assert (lowest.threshold, lowest.requests, lowest.hits) == (0.80, 4, 3)
    assert lowest.judge_calls == 3
    assert [point.budget for point in points if point.policy == "learned"] == list(BUDGETS)
    assert set(found["recommended"].values()) == {None}  # three audits show nothing
    assert "France" not in json.dumps(found)
    assert any("not enough evidence" in line for line in curve_text(Curve.of(found)))
    assert "acme/default/m1: 3 audits since" in shadow_heading(found)


async def test_only_the_tenant_and_namespace_that_are_asked_for_are_looked_back_on() -> None:
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=SHADOW) as gateway:
        await audited(gateway, requests=4)
        assert await curves(gateway, "umbrella") == []
        assert await curves(gateway, "acme", "other") == []
        assert len(await curves(gateway, "acme", "default")) == 1


def point(
    threshold: float, high: float, *, low: float = 0.0, policy: str = "guarded", hits: int = 10
) -> Point:
    return Point(policy, threshold, None, 100, hits, 0, None, 0, low, high)


def test_the_least_threshold_is_recommended_above_which_the_budget_holds_all_the_way() -> None:
    points = [
        point(0.80, 0.01),  # by luck: what is just above does not hold
        point(0.85, 0.30, low=0.15),
        point(0.90, 0.04),
        point(0.95, 0.02),
        point(0.99, 0.40),  # hardly anything is served there, so nothing is known
        point(0.90, 0.0, policy="fixed"),
        point(0.70, 0.0, hits=0),
    ]
    assert Curve(points).recommended == {0.01: None, 0.02: 0.95, 0.05: 0.90, 0.10: 0.90}


def test_a_curve_is_read_back_from_its_record() -> None:
    curve = Curve([point(0.9, 0.1), point(0.8, 0.2)])
    assert Curve.of(json.loads(json.dumps(curve.record()))) == curve
