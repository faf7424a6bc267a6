"""Calls behind the path: a model as judge, fresh answers to served questions, and what they may cost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from cache import Audits
from gateway.evidence.judging import Spending
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire, completion
from tests.valkey import eventually

NAMESPACE = "acme/default/m1"
ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"


class Model(ScriptedUpstream):
    """Answers questions with the same words always, and judgements with `verdict`."""

    def __init__(self, verdict: str = "yes") -> None:
        super().__init__()
        self.verdict = verdict
        self.judgements: list[Call] = []
        self.is_free = asyncio.Event()
        self.is_free.set()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        await self.is_free.wait()
        is_judgement = "compare answers" in call.json["messages"][0]["content"]
        if is_judgement:
            self.judgements.append(call)
        await wire.json(completion(self.verdict if is_judgement else "Paris."))


def cache(**audits: Any) -> dict[str, Any]:
    return {
        "embedder": {"kind": "onnx", "model": str(prepared_model())},
        "semantic_deadline_ms": 5000,
        "audits": {"shadow_share": 1, "served_share": 1} | audits,
    }


async def ask(gateway: RunningGateway, text: str, **fields: Any) -> str:
    reply = await gateway.chat(text, **fields)
    await gateway.idle()
    return str(reply.headers["x-cache"])


async def audited(gateway: RunningGateway, count: int = 1) -> tuple[int, int]:
    """(wrong, audits) once there are so many."""

    def share() -> Any:
        return gateway.plane.cache.standing(NAMESPACE).wrong_share

    await eventually(lambda: share().audits >= count, within_s=10)
    return share().wrong, share().audits


@pytest.mark.parametrize(("verdict", "wrong"), [("yes", 0), ("Yes.", 0), ("no", 1), ("No!", 1)])
async def test_a_model_of_the_pool_can_be_the_judge(verdict: str, wrong: int) -> None:
    async with Model(verdict) as model, running_gateway(model, cache=cache(judge="m2")) as gateway:
        await ask(gateway, ASKED)
        assert await ask(gateway, SAME) == "HIT-SEMANTIC"
        assert await audited(gateway) == (wrong, 1)
        assert gateway.plane.cache.standing(NAMESPACE).judges == ("m2",)
        (judgement,) = model.judgements
    said = judgement.json["messages"][1]["content"]
    assert all(part in said for part in (SAME, "Paris."))
    assert (judgement.json["temperature"], judgement.json["max_tokens"]) == (0, 8)


async def test_a_model_that_hedges_or_is_down_has_not_judged() -> None:
    async with Model("It depends.") as model, running_gateway(model, cache=cache(judge="m2")) as gateway:
        await ask(gateway, ASKED)
        await ask(gateway, SAME)
        await eventually(lambda: len(model.judgements) == 1, within_s=10)
        model.verdict = "yes"
        await ask(gateway, "What is the capital of France, the city?")
        assert (await audited(gateway))[0] == 0


async def test_an_audited_hit_asks_for_what_its_caller_asked_as_a_whole_answer() -> None:
    async with Model() as model, running_gateway(model, cache=cache()) as gateway:
        await ask(gateway, ASKED, max_tokens=7)
        async with gateway.chat_stream(SAME, max_tokens=7) as reply:
            await reply.aread()
        assert reply.headers["x-cache"] == "HIT-SEMANTIC"
        await audited(gateway)
        first, fresh = model.calls
    assert fresh.json == first.json | {"messages": [{"role": "user", "content": SAME}]}


async def test_after_its_audit_a_question_has_an_answer_of_its_own() -> None:
    async with Model() as model, running_gateway(model, cache=cache()) as gateway:
        await ask(gateway, ASKED)
        assert await ask(gateway, SAME) == "HIT-SEMANTIC"
        await audited(gateway)
        reply = await gateway.chat(SAME)
        assert (reply.headers["x-cache"], reply.json()["model"]) == ("HIT-EXACT", "m1")


async def test_without_anything_to_spend_hits_are_served_and_not_audited() -> None:
    async with Model() as model, running_gateway(model, cache=cache(calls_per_hour=0)) as gateway:
        await ask(gateway, ASKED)
        assert await ask(gateway, SAME) == await ask(gateway, SAME) == "HIT-SEMANTIC"
        assert len(model.calls) == 1


async def test_an_audit_does_not_count_for_the_callers_limits_nor_for_any_backend_afterwards() -> None:
    async with Model() as model, running_gateway(model, cache=cache()) as gateway:
        await ask(gateway, ASKED)
        await ask(gateway, SAME)
        await audited(gateway)
        await eventually(lambda: set(gateway.plane.pools.in_flight().values()) == {0})


def test_so_many_calls_an_hour_and_no_more() -> None:
    at = 0.0
    spending = Spending(2, now=lambda: at)
    assert [spending.take() for _ in range(3)] == [True, True, False]
    at = 3_600.0
    assert [spending.take() for _ in range(3)] == [True, True, False]


async def test_no_hit_is_audited_where_none_is_to_be() -> None:
    async with Model() as model, running_gateway(model, cache=cache(served_share=0)) as gateway:
        await ask(gateway, ASKED)
        for _ in range(50):
            assert await ask(gateway, SAME) == "HIT-SEMANTIC"
        assert len(model.calls) == 1


async def test_what_audits_may_cost_is_shared_by_fresh_answers_and_judgements() -> None:
    spent = cache(judge="m2", calls_per_hour=1)
    async with Model() as model, running_gateway(model, cache=spent) as gateway:
        await ask(gateway, ASKED)
        assert await ask(gateway, SAME) == "HIT-SEMANTIC"
        counts = audits_of(gateway).counts
        await eventually(lambda: counts.unjudged == 1, within_s=10)
        assert len(model.calls) == 2  # the question, and its fresh answer
        assert model.judgements == []

        assert model.judgements == []


async def test_hits_beyond_what_may_wait_are_not_audited_and_counted() -> None:
    async with Model() as model, running_gateway(model, cache=cache(shadow_share=0)) as gateway:
        await ask(gateway, ASKED)
        model.is_free.clear()
        for _ in range(36):
            assert (await gateway.chat(SAME)).headers["x-cache"] == "HIT-SEMANTIC"
        await eventually(
            lambda: len(model.calls) == 2, within_s=10
        )  # one is being asked for, the others wait
        assert 3 <= audits_of(gateway).counts.dropped <= 4
        model.is_free.set()
        await audited(gateway)


def audits_of(gateway: RunningGateway) -> Audits:
    evidence = gateway.plane.cache.evidence
    assert isinstance(evidence, Audits)
    return evidence
