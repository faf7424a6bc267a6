"""Audits, an alias and a report with a real model behind the gateway: answers that nobody scripted."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from cache import Audits
from tests.cache.prepared import prepared_model
from tests.e2e.asking import ASKED, PATIENT, SAME
from tests.running import RunningGateway, running_gateway
from tests.valkey import eventually

NAMESPACE = "acme/default/m1"
NEAR = "How many hours does it take to fly from London to Tokyo?"


async def ask(gateway: RunningGateway, text: str) -> httpx.Response:
    reply = await gateway.chat(text)
    assert reply.status_code == 200
    await gateway.idle()
    return reply


async def test_a_shadow_audit_a_served_audit_an_alias_and_a_report(
    llamas: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.evidence.caching._SETTLE_EVERY_S", 0.05)
    cache = {
        "embedder": {"kind": "onnx", "model": str(prepared_model())},
        "semantic_deadline_ms": 5000,
        "audits": {"shadow_share": 1, "served_share": 1},
    }
    async with running_gateway(*llamas, cache=cache, **PATIENT) as gateway:
        audits = gateway.plane.cache.evidence
        assert isinstance(audits, Audits)
        await ask(gateway, ASKED)

        # a miss near it is judged by its own fresh answer
        assert (await ask(gateway, NEAR)).headers["x-cache"] == "MISS"
        await eventually(lambda: audits.counts.judged == 1, within_s=20)

        # a hit: the model is asked once more behind the path, and the question then has an answer of its own
        hit = await ask(gateway, SAME)
        assert hit.headers["x-cache"] == "HIT-SEMANTIC"
        await eventually(lambda: audits.counts.judged == 2, within_s=30)
        async with asyncio.timeout(20):
            while (await ask(gateway, SAME)).headers["x-cache"] != "HIT-EXACT":
                pass  # it is being stored

        # whoever's answer agreed with the stored one is an alias of it
        await eventually(lambda: len(audits.of(NAMESPACE).aliases) > 0, within_s=10)

        # the hit was wrong after all, says its caller
        report = {"request_id": hit.headers["x-echogate-request-id"], "rating": "wrong"}
        reply = await gateway.client.post(
            "/v1/cache/feedback", json=report, headers={"authorization": f"Bearer {gateway.key}"}
        )
        assert reply.json()["blocked"] is True
        assert len(audits.books.blocked.known) == 1
        await eventually(lambda: gateway.plane.cache.standing(NAMESPACE).reported_wrong == 1, within_s=10)
