"""The index of a worker stays within its memory, and what had to leave it is found again."""

from __future__ import annotations

import time

import numpy as np
from msgspec.structs import replace

from cache import Answer, Question
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import ScriptedUpstream

MIB = 1
OTHERS = 700  # partitions of one vector each: more than fit


def told(gateway: RunningGateway) -> dict[str, float]:
    families = gateway.plane.metrics.snapshot().families
    return {
        f"{family.name} {' '.join(value for _, value in sample.labels)}".strip(): sample.value
        for family in families
        for sample in family.samples
    }


async def fill(gateway: RunningGateway) -> None:
    cache, dice = gateway.plane.cache, np.random.default_rng(1)
    for number in range(OTHERS):
        question = Question(cache.partition("acme/others/m1", b"%d" % number), "What else?")
        ticket = await cache.ticket(question, deadline=time.monotonic() + 5)
        assert ticket is not None
        raw = dice.standard_normal(384).astype(np.float32)
        with_vector = replace(ticket, vector=raw / np.linalg.norm(raw))
        assert (await cache.store(with_vector, Answer("That.", b"{}"))).is_stored


async def test_a_partition_that_left_for_others_is_read_again_from_the_store() -> None:
    cache = {
        "embedder": {"model": str(prepared_model())},
        "semantic_deadline_ms": 5000,
        "index": {"memory_mib": MIB},
    }
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=cache) as gateway:
        await gateway.chat("How do I boil an egg?")
        await gateway.idle()
        await fill(gateway)
        full = told(gateway)
        assert full["echogate_index_bytes"] <= MIB << 20
        assert full["echogate_index_vectors"] < OTHERS
        assert full["echogate_index_spaces evicted"] > 0

        only_cached = {"cache-control": "only-if-cached"}  # a miss then stores nothing
        deadline = time.monotonic() + 20
        while (reply := await gateway.chat("How can I boil an egg?", headers=only_cached)).status_code != 200:
            assert time.monotonic() < deadline
        assert reply.headers["x-cache"] == "HIT-SEMANTIC"
        assert told(gateway)["echogate_index_spaces reloaded"] == 1
