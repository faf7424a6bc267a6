"""The error budget at work: real gateway, store and embedder; an upstream that answers by what is asked for.

What it answers decides whether a similar question's answer is right, so the truth is known to the test.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from cache import Audits, Standing
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire, completion
from tests.valkey import eventually

NAMESPACE = "acme/default/m1"
BUDGET = 0.10
TASKS = (
    "reset my password",
    "bake sourdough bread",
    "change a flat bicycle tyre",
    "train a puppy to sit",
    "install a dishwasher",
    "write a cover letter",
    "grow tomatoes on a balcony",
    "tune an acoustic guitar",
    "remove a wine stain",
    "apply for a passport",
)
WORDINGS = (
    "How do I {}?",
    "How can I {}?",
    "What is the best way to {}?",
    "Please explain how to {}",
    "What do I have to do to {}?",
    "Could you tell me how to {}?",
    "How would one {}?",
    "Show me how to {}",
    "I want to {}, how does that work?",
    "Give me instructions to {}",
    "What are the steps to {}?",
    "Teach me to {}",
)


class Truth(ScriptedUpstream):
    """Answers the same to all wordings of a task; while `is_shifted`, something else each time."""

    def __init__(self) -> None:
        super().__init__()
        self.is_shifted = False
        self.handler = self._answer
        self._numbers = itertools.count(1000, 17)

    async def _answer(self, call: Call, wire: Wire) -> None:
        asked = call.json["messages"][-1]["content"]
        task = next((number for number, task in enumerate(TASKS) if task in asked), -1)
        text = f"Follow chapter {task} of the handbook."
        if self.is_shifted:
            text = f"Case {next(self._numbers)} is handled by department {next(self._numbers)}."
        await wire.json(completion(text))


@asynccontextmanager
async def trusting(**cache: object) -> AsyncIterator[tuple[RunningGateway, Truth]]:
    settings: dict[str, object] = {
        "embedder": {"kind": "onnx", "model": str(prepared_model())},
        "semantic_deadline_ms": 5000,
        "budget": BUDGET,
        "audits": {"shadow_share": 1, "served_share": 1, "per_minute": 10_000, "calls_per_hour": 10_000},
    }
    async with Truth() as upstream, running_gateway(upstream, cache=settings | cache) as gateway:
        yield gateway, upstream


def wordings(first: int, last: int) -> Iterator[str]:
    """Wordings number `first` to `last` of every task."""
    return (wording.format(task) for wording in WORDINGS[first:last] for task in TASKS)


async def ask_all(gateway: RunningGateway, questions: Iterator[str]) -> list[str]:
    """What the cache did for each, one after the other, each answer stored before the next is asked."""
    outcomes = []
    for question in questions:
        reply = await gateway.chat(question)
        assert reply.status_code == 200
        await gateway.idle()
        outcomes.append(reply.headers["x-cache"])
    return outcomes


def standing(gateway: RunningGateway) -> Standing:
    return gateway.plane.cache.standing(NAMESPACE)


def audits_learned_from(gateway: RunningGateway) -> int:
    weights = standing(gateway).weights
    return 0 if weights is None else weights.audits


async def teach(gateway: RunningGateway, questions: Iterator[str]) -> list[str]:
    """Ask, and let what came of it be judged and known before anything else is asked."""
    evidence = gateway.plane.cache.evidence
    assert isinstance(evidence, Audits)
    outcomes = await ask_all(gateway, questions)
    await until(lambda: not evidence.waiting and standing(gateway).audits == evidence.counts.judged)
    return outcomes


async def until(condition: Callable[[], bool]) -> None:
    await eventually(condition, within_s=20)


async def test_a_learned_namespace_learns_serves_trips_on_wrong_answers_and_comes_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.evidence.caching._SETTLE_EVERY_S", 0.05)
    async with trusting(policy="learned", strict=True) as (gateway, upstream):
        # learning: nothing similar is served, every miss near another question is judged
        assert set(await teach(gateway, wordings(0, 2))) == {"MISS"}
        assert standing(gateway).state == "learning"
        for number in range(2, 8):
            await teach(gateway, wordings(number, number + 1))
        await until(lambda: standing(gateway).state == "on" and audits_learned_from(gateway) >= 60)

        # on: similar questions are answered from the cache
        outcomes = await ask_all(gateway, wordings(8, 10))
        assert outcomes.count("HIT-SEMANTIC") >= 5

        # what was right is wrong now: audits of hits find out
        upstream.is_shifted = True
        await asyncio.gather(*(gateway.chat(f"{question} Please.") for question in wordings(0, 3)))
        await until(lambda: standing(gateway).state == "tripped")
        assert standing(gateway).reason == "over-budget"
        assert set(await ask_all(gateway, (f"{question} Thanks." for question in wordings(0, 2)))) == {"MISS"}

        # the wrong answers are purged, and clean audits lead back
        upstream.is_shifted = False
        await gateway.plane.cache.flush(NAMESPACE)
        for number in range(8):
            await teach(gateway, wordings(number, number + 1))
        await until(lambda: standing(gateway).state == "on")
        outcomes = await ask_all(gateway, wordings(8, 10))
        assert outcomes.count("HIT-SEMANTIC") >= 5
