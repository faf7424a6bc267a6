"""The queue in front of the embedder: who gets in, who is skipped, and that nothing an embedder does gets out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from cache import EmbedderBusy, EmbedQueue, Neighbours, NoEmbedder, UnfitText
from cache.model import Vector
from cache.testing import HashEmbedder
from tests.cache.parts import soon


class Gated(HashEmbedder):
    """Embeds one text each time it is let."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)
        self.texts: list[str] = []

    def embed(self, text: str) -> Vector:
        self.texts.append(text)
        self.entered.release()
        assert self.gate.acquire(timeout=5)
        return super().embed(text)


class Giving(HashEmbedder):
    """Gives what it was told to, or raises it."""

    def __init__(self, outcome: Any) -> None:
        super().__init__(dimension=4)
        self.outcome = outcome

    def embed(self, text: str) -> Vector:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        vector: Vector = self.outcome
        return vector


@pytest.fixture
def gated() -> Iterator[tuple[Gated, EmbedQueue]]:
    embedder = Gated()
    queue = EmbedQueue(embedder)
    yield embedder, queue
    embedder.gate.release(100)
    queue.close()


async def started(embedder: Gated) -> None:
    assert await asyncio.to_thread(embedder.entered.acquire, timeout=5)


async def embedding(queue: EmbedQueue, text: str, *, deadline: float | None = None) -> asyncio.Task[Any]:
    """A task that has already entered the queue."""
    task = asyncio.ensure_future(queue.embed(text, deadline=deadline or soon()))
    await asyncio.sleep(0)
    return task


async def test_a_vector_comes_with_what_was_found_near_it() -> None:
    queue = EmbedQueue(HashEmbedder())
    try:
        done = await queue.embed(
            "some text", deadline=soon(), search=lambda vector: Neighbours([(len(vector), 0.5)])
        )
    finally:
        queue.close()
    assert done.neighbours == [(64, 0.5)]
    assert done.started_s <= done.embedded_s <= done.ended_s


async def test_what_cannot_be_done_in_time_is_refused_at_the_door(gated: tuple[Gated, EmbedQueue]) -> None:
    embedder, queue = gated
    first = await embedding(queue, "long " * 200)
    await started(embedder)
    before = time.monotonic()
    with pytest.raises(EmbedderBusy):
        await queue.embed("short", deadline=before + 0.04)
    assert time.monotonic() - before < 0.03
    embedder.gate.release()
    await first


async def test_an_idle_queue_takes_any_text_however_slow_the_last_one_was() -> None:
    ticks = iter([0.0, 0.0, 0.0, 1000.0, 1000.0])  # the first text takes a thousand seconds
    queue = EmbedQueue(HashEmbedder(), now=lambda: next(ticks, 1000.0))
    try:
        await queue.embed("slow", deadline=2000.0)
        await queue.embed("next", deadline=1000.5)
    finally:
        queue.close()


async def test_a_caller_that_waits_too_long_is_told_so(gated: tuple[Gated, EmbedQueue]) -> None:
    embedder, queue = gated
    with pytest.raises(EmbedderBusy):
        await queue.embed("text", deadline=time.monotonic() + 0.02)
    embedder.gate.release()


async def test_the_text_of_a_caller_that_left_is_not_embedded(gated: tuple[Gated, EmbedQueue]) -> None:
    embedder, queue = gated
    first = await embedding(queue, "first")
    await started(embedder)
    left = await embedding(queue, "left")
    last = await embedding(queue, "last")
    left.cancel()
    embedder.gate.release(3)
    await asyncio.gather(first, last)
    assert embedder.texts == ["first", "last"]


async def test_background_work_waits_for_all_other(gated: tuple[Gated, EmbedQueue]) -> None:
    embedder, queue = gated
    first = await embedding(queue, "first")
    await started(embedder)
    background = asyncio.ensure_future(queue.embed("background", deadline=soon(), is_background=True))
    await asyncio.sleep(0)
    urgent = await embedding(queue, "urgent")
    embedder.gate.release(3)
    await asyncio.gather(first, background, urgent)
    assert embedder.texts == ["first", "urgent", "background"]


async def test_background_work_is_bounded(gated: tuple[Gated, EmbedQueue]) -> None:
    embedder, queue = gated
    first = await embedding(queue, "first")
    await started(embedder)
    waiting = [
        asyncio.ensure_future(queue.embed("text", deadline=soon(), is_background=True)) for _ in range(256)
    ]
    await asyncio.sleep(0)
    with pytest.raises(EmbedderBusy):
        await queue.embed("one more", deadline=soon(), is_background=True)
    embedder.gate.release(300)
    await asyncio.gather(first, *waiting)


@pytest.mark.parametrize("error", [UnfitText("too-long"), RuntimeError("broken"), MemoryError()])
async def test_an_error_reaches_its_caller_and_not_the_next(error: Exception) -> None:
    embedder = Giving(error)
    queue = EmbedQueue(embedder)
    try:
        with pytest.raises(type(error)):
            await queue.embed("text", deadline=soon())
        embedder.outcome = np.ones(4)
        assert (await queue.embed("text", deadline=soon())).vector.tolist() == [0.5] * 4
    finally:
        queue.close()


@pytest.mark.parametrize("length", [0.1, 1.0, 50.0])
async def test_vectors_of_any_length_are_made_unit(length: float) -> None:
    queue = EmbedQueue(Giving(np.array([length, 0, 0, 0])))
    try:
        assert (await queue.embed("text", deadline=soon())).vector.tolist() == [1, 0, 0, 0]
    finally:
        queue.close()


@pytest.mark.parametrize(
    "outcome",
    [np.zeros(4), np.full(4, np.nan), np.full(4, np.inf), np.ones(0), np.ones(768)],
    ids=["zero", "nan", "inf", "empty", "another size"],
)
async def test_an_unusable_vector_is_refused(outcome: Any) -> None:
    queue = EmbedQueue(Giving(outcome))
    try:
        with pytest.raises(UnfitText, match="unusable-vector"):
            await queue.embed("text", deadline=soon())
    finally:
        queue.close()


async def test_closing_closes_the_embedder_and_refuses_what_comes_after() -> None:
    embedder = HashEmbedder()
    queue = EmbedQueue(embedder)
    queue.close()
    assert embedder.is_closed
    with pytest.raises(EmbedderBusy):
        await queue.embed("text", deadline=soon())


async def test_without_an_embedder_every_text_is_unfit() -> None:
    with pytest.raises(UnfitText, match="no-embedder"):
        await NoEmbedder().embed("text", deadline=soon())
