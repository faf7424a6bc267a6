"""What went wrong with vectors elsewhere: ids that move or come twice, scores that are none, memory that only grows."""

from __future__ import annotations

import asyncio
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from cache import (
    Embedder,
    EmbedQueue,
    Hit,
    Miss,
    OnnxEmbedder,
    Plan,
    Rules,
    SemanticCache,
    Spaces,
    Unaudited,
    UnfitText,
)
from cache.identity import entry_id
from cache.index.plan import Storage
from cache.model import Vector
from cache.testing import HashEmbedder, MemoryEntries
from tests.cache.parts import ANSWER, SECRET, asked, part, soon
from tests.cache.prepared import prepared_model
from tests.running import running_gateway
from tests.scripted import ScriptedUpstream

NAME = bytes(32)
DIMENSION = 384
STORAGES: tuple[Storage, ...] = ("float32", "float16", "int8")
# Every kind of index that a space can have: none, one that compares all, one in clusters.
KINDS = {"few": Plan(few=500), "flat": Plan(few=4), "clusters": Plan(few=4, flat=50, recall=1.0)}


def plan(kind: str, storage: Storage) -> Plan:
    like = KINDS[kind]
    return Plan(storage, few=like.few, flat=like.flat, recall=like.recall)


def vector(seed: int) -> Vector:
    raw = np.random.default_rng(seed).standard_normal(DIMENSION)
    unit: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
    return unit


@pytest.fixture(params=[(kind, storage) for kind in KINDS for storage in STORAGES], ids=" ".join)
def spaces(request: pytest.FixtureRequest) -> Iterator[Spaces]:
    made = Spaces(plan(*request.param))
    yield made
    made.close()


def add(spaces: Spaces, *ids: int) -> None:
    for each in ids:
        spaces.add(NAME, each, vector(each), expires_at_s=1e12)


def nearest(spaces: Spaces, seed: int) -> tuple[int, float]:
    found = spaces.find(NAME)
    assert found is not None
    return found.search(vector(seed))[0]


async def test_after_a_removal_no_question_gets_its_neighbours_answer() -> None:
    """Places in an index move when one is removed; our ids are no places."""
    queue = EmbedQueue(HashEmbedder())
    spaces = Spaces(Plan(few=2, flat=4, recall=1.0))
    cache = SemanticCache(MemoryEntries(), queue, spaces, Unaudited(Rules()), secret=SECRET, ttl_s=60.0)
    topics = [
        "kettle",
        "ledger",
        "violin",
        "harbour",
        "glacier",
        "orchard",
        "lantern",
        "saddle",
        "compass",
        "anvil",
    ]
    texts = [f"please explain to me what a {topic} is for" for topic in topics]
    for text in texts:
        missed = await cache.begin(asked(text), deadline=soon()).result()
        assert isinstance(missed, Miss)
        assert missed.ticket is not None
        assert (await cache.store(missed.ticket, ANSWER)).is_stored
    assert await cache.forget("team-a", entry_id(SECRET, part(), texts[2]))
    assert await spaces.settle()
    for at, text in enumerate(texts):
        outcome = await cache.begin(
            asked(f"{text} {text}"), deadline=soon()
        ).result()  # in the same direction
        if at == 2:
            assert isinstance(outcome, Miss)
        else:
            assert isinstance(outcome, Hit)
            assert outcome.entry.question == text
    queue.close()
    spaces.close()


def test_an_id_is_never_another_vectors(spaces: Spaces) -> None:
    add(spaces, *range(100))
    for each in (3, 30, 31, 77, 99):
        spaces.remove(NAME, each)
    add(spaces, *range(100, 105))
    spaces.remove(NAME, 102)
    gone = {3, 30, 31, 77, 99, 102}
    for each in range(105):
        found, cosine = nearest(spaces, each)
        assert (found == each) == (each not in gone)
        assert (cosine > 0.99) == (each not in gone)


def test_a_score_is_that_of_the_vector_that_was_stored(spaces: Spaces) -> None:
    add(spaces, *range(300))
    dice = random.Random(1)
    for _ in range(150):
        each = dice.randrange(400)
        spaces.remove(NAME, each)
        add(spaces, dice.randrange(400))
    assert asyncio.run(spaces.settle())
    space = spaces.find(NAME)
    assert space is not None
    for seed in range(1_000, 1_050):
        for found, cosine in space.search(vector(seed)):
            assert cosine == pytest.approx(float(vector(found) @ vector(seed)), abs=1e-4)


def test_no_cosine_is_beyond_one(spaces: Spaces) -> None:
    add(spaces, *range(300))
    assert all(-1.0 <= nearest(spaces, each)[1] <= 1.0 for each in range(300))


async def test_the_very_question_is_found_whatever_similarity_is_asked_for() -> None:
    """A cosine of a text with itself may come out as 0.9999999: equal questions do not depend on it."""
    settings = {"embedder": {"kind": "onnx", "model": str(prepared_model())}, "semantic_deadline_ms": 5000}
    async with ScriptedUpstream() as upstream, running_gateway(upstream, cache=settings) as gateway:
        asking = {"x-cache-threshold": "1.0"}
        assert (await gateway.chat("How do I boil an egg?", headers=asking)).headers["x-cache"] == "MISS"
        await gateway.idle()
        again = await gateway.chat("How do I boil an egg?", headers=asking)
        assert (again.headers["x-cache"], again.headers["x-cache-similarity"]) == ("HIT-EXACT", "1.0000")


def text(dice: random.Random, words: int) -> str:
    some = ["kettle", "how", "do", "i", "open", "the", "ledger", "for", "a", "violin", "today", "please"]
    return " ".join(dice.choices(some, k=words))


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    made = OnnxEmbedder(prepared_model())
    yield made
    made.close()


class Kept:
    """The same embedder for all queues of a test, which close theirs."""

    def __init__(self, embedder: Embedder) -> None:
        self.fingerprint = embedder.fingerprint
        self.dimension = embedder.dimension
        self.embed = embedder.embed

    def close(self) -> None:
        """The fixture does it."""


async def embed_all(queue: EmbedQueue, texts: list[str]) -> list[Vector]:
    asking = (queue.embed(each, deadline=soon() + 60, is_background=True) for each in texts)
    return [done.vector for done in await asyncio.gather(*asking)]


def test_a_text_is_the_same_vector_alone_and_among_others_at_once(embedder: Embedder) -> None:
    """Beside long neighbours, forty at a time, from one event loop after another."""
    dice = random.Random(2)
    texts = [text(dice, words) for words in (3, 8, 20, 60, 120) for _ in range(8)]
    alone = [embedder.embed(each) for each in texts]
    queue = EmbedQueue(Kept(embedder))
    for _ in range(3):
        order = dice.sample(range(len(texts)), len(texts))
        together = asyncio.run(embed_all(queue, [texts[at] for at in order]))
        for at, found in zip(order, together, strict=True):
            assert np.array_equal(found, alone[at] / np.float32(np.linalg.norm(alone[at])))
    queue.close()


def test_embedding_again_and_again_takes_no_more_memory(embedder: Embedder) -> None:
    dice = random.Random(3)

    def some(count: int) -> None:
        queue = EmbedQueue(Kept(embedder))
        asyncio.run(embed_all(queue, [text(dice, 6) for _ in range(count)]))
        queue.close()

    for _ in range(2):
        some(100)
    before = resident()
    for _ in range(8):  # a new thread and a new event loop each time
        some(100)
    assert resident() < before * 1.05


def test_texts_that_are_much_too_long_are_refused_before_they_cost_anything(embedder: Embedder) -> None:
    dice = random.Random(4)
    letters = "abcdefghijklmnopqrstuvwxyz     "
    long = ["".join(dice.choices(letters, k=12_000)) for _ in range(50)]

    def refuse_all() -> None:
        for each in long:
            with pytest.raises(UnfitText, match="too-long"):
                embedder.embed(each)

    refuse_all()
    before = resident()
    for _ in range(20):
        refuse_all()
    assert resident() < before * 1.05


def resident() -> int:
    """Bytes of this process in memory."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize()
