"""An embeddings server that refuses, fails or gives rubbish costs similar hits, and never an answer."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from cache.testing import HashEmbedder
from tests.embeddings_server import EmbeddingsServer, cutting, refusal, running_embeddings, vectors
from tests.running import RunningGateway, answer_of, running_gateway, settings_for
from tests.scripted import ScriptedUpstream
from tests.valkey import Valkey, running_valkey

ASKED = "how do i reset my password for the shop"
SIMILAR = "reset my password for the shop how do i do"
OTHER = "why do planets move around the sun"
LONG = "please read all of this " + "word " * 2_000
WINDOW = 512


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as running:
        yield running


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as scripted:
        yield scripted


def gateway(
    valkey: Valkey, upstream: ScriptedUpstream, server: EmbeddingsServer, folder: Path, **cache: Any
) -> AbstractAsyncContextManager[RunningGateway]:
    embedder = {"kind": "http", "url": server.base_url, "model": "m", "dimension": 64, "window": WINDOW * 8}
    own = {"embedder": embedder, "semantic_deadline_ms": 5000, "policy": "fixed", "threshold": 0.9} | cache
    settings = settings_for(upstream, data_dir=folder, cache=own)
    return running_gateway(upstream, valkey=valkey, settings=settings)


async def outcome(running: RunningGateway, text: str) -> str:
    reply = await running.chat(text)
    assert reply.status_code == 200, reply.text
    await running.idle()
    done = str(reply.headers["x-cache"])
    return done if done.startswith("HIT") else f"{done} {reply.headers['x-cache-reason']}"


def looked_up(running: RunningGateway, reason: str) -> float:
    for family in running.plane.metrics.snapshot().families:
        if family.name == "echogate_cache_lookups":
            return sum(each.value for each in family.samples if dict(each.labels).get("reason") == reason)
    return 0


async def test_a_chat_that_is_longer_than_the_embedder_takes_is_answered_and_the_reason_counted(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    embedder = HashEmbedder(window=10_000)

    def answer(texts: list[str]) -> tuple[int, bytes]:
        if any(len(text.split()) > WINDOW for text in texts):
            return refusal("This model's maximum context length is 512 tokens.")
        return cutting(embedder, window=WINDOW)(texts)

    with running_embeddings(answer) as server:
        async with gateway(valkey, upstream, server, tmp_path) as running:
            assert await outcome(running, ASKED) == "MISS absent"
            asked = len(server.asked)
            assert await outcome(running, LONG + "one") == "MISS embedder-refused"
            assert await outcome(running, LONG + "two") == "MISS embedder-refused"
            assert len(server.asked) - asked == 2  # once a text: neither tried again nor for the storing
            assert looked_up(running, "embedder-refused") == 2
            assert await outcome(running, LONG + "one") == "HIT-EXACT"
            assert await outcome(running, SIMILAR) == "HIT-SEMANTIC"


async def test_while_the_embedder_is_away_answers_take_no_longer_and_similar_hits_come_back(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    good = cutting(HashEmbedder(), window=WINDOW)
    with running_embeddings(good) as server:
        async with gateway(valkey, upstream, server, tmp_path) as running:
            assert await outcome(running, ASKED) == "MISS absent"
            server.answering = lambda _: refusal("overloaded", 503)
            asked = len(server.asked)
            for number in range(10):
                assert await outcome(running, f"{OTHER} {number}") == "MISS embedder-error"
            assert len(server.asked) - asked <= 3  # left alone for half a second, then for one
            server.answering = good
            deadline = time.monotonic() + 20
            reading = {"cache-control": "only-if-cached"}  # a miss is not stored
            while (await running.chat(SIMILAR, headers=reading)).headers.get("x-cache") != "HIT-SEMANTIC":
                assert time.monotonic() < deadline


@pytest.mark.parametrize(
    "raw",
    [[0.0] * 64, [float("nan")] * 64, [float("inf")] * 64, [], [1.0] * 63, [None] * 64, ["x"] * 64],
    ids=["zeros", "nan", "inf", "empty", "another size", "null", "words"],
)
async def test_a_vector_that_is_none_is_refused_before_storing_and_poisons_nothing_over_a_restart(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path, raw: list[Any]
) -> None:
    hashed = HashEmbedder()

    def answer(texts: list[str]) -> tuple[int, bytes]:
        return vectors(*(raw if "bad" in text else hashed.embed(text).tolist() for text in texts))

    with running_embeddings(answer) as server:
        async with gateway(valkey, upstream, server, tmp_path) as running:
            assert await outcome(running, ASKED) == "MISS absent"
            assert await outcome(running, "a bad text that gives no vector") == "MISS unusable-vector"
            assert looked_up(running, "unusable-vector") == 1
            assert await outcome(running, OTHER) == "MISS below-threshold"
        async with gateway(valkey, upstream, server, tmp_path) as running:
            assert await outcome(running, SIMILAR) == "HIT-SEMANTIC"
            assert await outcome(running, "why planets move around the sun do") == "HIT-SEMANTIC"
            assert await outcome(running, "a bad text that gives no vector") == "HIT-EXACT"


async def test_long_vectors_win_nothing(valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path) -> None:
    """Lengths of 0.1, 1 and 50 for texts that have nothing to do with each other."""
    hashed = HashEmbedder()
    lengths = {"alpha": 0.1, "beta": 1.0, "gamma": 50.0}

    def answer(texts: list[str]) -> tuple[int, bytes]:
        scaled = [hashed.embed(text) * lengths.get(text.split()[0], 1.0) for text in texts]
        return vectors(*(each.tolist() for each in scaled))

    with running_embeddings(answer) as server:
        async with gateway(valkey, upstream, server, tmp_path) as running:
            assert await outcome(running, "gamma rays from distant stars") == "MISS absent"
            assert await outcome(running, "alpha males among the wolves") == "MISS below-threshold"
            assert await outcome(running, "beta versions of new programs") == "MISS below-threshold"
            assert await outcome(running, "gamma from distant rays stars") == "HIT-SEMANTIC"


async def test_a_size_that_changes_while_it_runs_fails_nothing(
    valkey: Valkey, upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    good, other = (cutting(HashEmbedder(dimension=size), window=WINDOW) for size in (64, 96))
    with running_embeddings(good) as server:
        async with gateway(valkey, upstream, server, tmp_path) as running:
            first = await running.chat(ASKED)
            await running.idle()
            server.answering = other
            assert await outcome(running, SIMILAR) == "MISS unusable-vector"
            server.answering = good
            again = await running.chat("reset my password for the shop do how do i")
            assert again.headers["x-cache"] == "HIT-SEMANTIC"
            assert answer_of(again) == answer_of(first)
