"""The cache as its caller sees it, on fakes: tiers, ages, tickets, and a reason for every miss."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from cache import (
    Answer,
    EmbedQueue,
    FaissIndex,
    Hit,
    Miss,
    NoEmbedder,
    Policy,
    Question,
    SemanticCache,
    Spaces,
    StoreUnavailable,
)
from cache.model import Vector
from cache.testing import HashEmbedder, MemoryEntries
from tests.cache.parts import ANSWER, SECRET, Clock, asked, soon

TEXT = "how do i reset my password for the shop"
SIMILAR = "reset my password for the shop how do i do"  # nearly the same words


class Moody(HashEmbedder):
    """Raises what it was told to."""

    error: Exception | None = None

    def embed(self, text: str) -> Vector:
        if self.error is not None:
            raise self.error
        return super().embed(text)


@dataclass
class House:
    cache: SemanticCache
    entries: MemoryEntries
    embedder: Moody
    spaces: Spaces
    clock: Clock

    async def look_up(self, question: Question) -> Hit | Miss:
        return await self.cache.begin(question, deadline=soon()).result()

    async def ask(self, text: str, **changes: Any) -> Hit | Miss:
        return await self.look_up(replace(asked(text), **changes))

    async def teach(self, text: str, answer: Answer = ANSWER, **changes: Any) -> None:
        missed = await self.ask(text, **changes)
        assert isinstance(missed, Miss)
        assert missed.ticket is not None
        assert (await self.cache.store(missed.ticket, answer)).is_stored


def built(policy: Policy, embed: EmbedQueue | NoEmbedder, embedder: Moody) -> House:
    clock = Clock()
    entries, spaces = MemoryEntries(wall=clock), Spaces(FaissIndex)
    cache = SemanticCache(
        entries, embed, spaces, policy, secret=SECRET, ttl_s=60.0, max_entry_bytes=4000, wall=clock
    )
    return House(cache, entries, embedder, spaces, clock)


@pytest.fixture
async def house() -> AsyncIterator[House]:
    embedder = Moody()
    queue = EmbedQueue(embedder)
    yield built(Policy(threshold=0.8), queue, embedder)
    queue.close()


def reason(outcome: Hit | Miss) -> str:
    assert isinstance(outcome, Miss), outcome
    return outcome.reason


async def test_the_first_time_is_a_miss_with_a_ticket(house: House) -> None:
    outcome = await house.ask(TEXT)
    assert isinstance(outcome, Miss)
    assert (outcome.reason, [step.name for step in outcome.steps]) == ("absent", ["exact"])
    assert outcome.ticket is not None


async def test_the_same_again_is_an_exact_hit_without_embedding(house: House) -> None:
    await house.teach(TEXT)
    house.clock.at_s += 5.0
    hit = await house.ask(TEXT)
    assert isinstance(hit, Hit)
    assert (hit.tier, hit.entry.answer, hit.similarity, hit.age_s) == ("exact", ANSWER, 1.0, 5.0)
    assert [step.name for step in hit.steps] == ["exact"]


async def test_a_similar_question_is_a_semantic_hit_with_all_its_facts(house: House) -> None:
    await house.teach(TEXT)
    hit = await house.ask(SIMILAR)
    assert isinstance(hit, Hit)
    assert (hit.tier, hit.entry.answer) == ("semantic", ANSWER)
    assert hit.verdict is not None
    assert hit.verdict.similarity == hit.similarity >= 0.8
    assert [step.name for step in hit.steps] == ["exact", "embed", "search", "accept"]
    assert all(step.started_s <= step.ended_s for step in hit.steps)


async def test_an_unlike_question_says_how_near_it_came(house: House) -> None:
    await house.teach(TEXT)
    outcome = await house.ask("how do i cook rice")
    assert isinstance(outcome, Miss)
    assert outcome.reason == "below-threshold"
    assert outcome.similarity is not None
    assert outcome.similarity < 0.8


async def test_a_vetoed_neighbour_names_the_veto(house: House) -> None:
    await house.teach(TEXT)
    assert reason(await house.ask(f"{TEXT} not")) == "veto-negation"


async def test_the_next_best_is_served_where_the_best_is_vetoed(house: House) -> None:
    await house.teach(f"{TEXT} not", Answer("no", b"no"))
    await house.teach(SIMILAR, Answer("yes", b"yes"))
    hit = await house.ask(TEXT)
    assert isinstance(hit, Hit)
    assert hit.entry.answer.text == "yes"


async def test_a_callers_minimum_is_added(house: House) -> None:
    await house.teach(TEXT)
    assert reason(await house.ask(SIMILAR, min_similarity=0.9999)) == "below-threshold"


async def test_nothing_is_seen_from_another_partition(house: House) -> None:
    await house.teach(TEXT)
    for other in (house.cache.partition("team-a", b"other"), house.cache.partition("team-b", b"model=m")):
        assert reason(await house.ask(TEXT, partition=other)) == "absent"
        assert reason(await house.ask(SIMILAR, partition=other)) == "absent"


async def test_where_nothing_is_stored_no_text_is_embedded(house: House) -> None:
    house.embedder.error = AssertionError("must not be asked")
    assert reason(await house.ask(TEXT)) == "absent"


async def test_a_reason_to_skip_is_the_reason_of_the_miss(house: House) -> None:
    await house.teach(TEXT)
    assert reason(await house.ask(SIMILAR, skip_semantic="image")) == "image"


async def test_a_question_matched_exactly_only_is_not_embedded_for_others_either(house: House) -> None:
    await house.teach(TEXT, skip_semantic="image")
    assert len(house.spaces) == 0
    assert isinstance(await house.ask(TEXT), Hit)


async def test_an_entry_older_than_asked_for_is_no_hit(house: House) -> None:
    await house.teach(TEXT)
    house.clock.at_s += 10.0
    assert reason(await house.ask(TEXT, max_age_s=5.0)) == "too-old"
    assert reason(await house.ask(SIMILAR, max_age_s=5.0)) == "too-old"
    assert isinstance(await house.ask(SIMILAR, max_age_s=11.0), Hit)


async def test_an_expired_entry_is_forgotten_at_first_touch(house: House) -> None:
    await house.teach(TEXT)
    house.clock.at_s += 61.0
    assert len(house.spaces) == 1
    assert reason(await house.ask(SIMILAR)) == "absent"
    assert len(house.spaces) == 0


async def test_a_time_to_live_of_its_own_is_kept(house: House) -> None:
    missed = await house.ask(TEXT)
    assert isinstance(missed, Miss)
    assert missed.ticket
    await house.cache.store(missed.ticket, ANSWER, ttl_s=5.0)
    house.clock.at_s += 6.0
    assert reason(await house.ask(TEXT)) == "absent"


@pytest.mark.parametrize(
    ("text", "expected"), [("word " * 257, "too-long"), ("花 呗 额 度", "unknown-tokens"), ("!?", "no-words")]
)
async def test_a_text_the_embedder_cannot_read_is_matched_exactly(
    house: House, text: str, expected: str
) -> None:
    await house.teach(TEXT)
    missed = await house.ask(text)
    assert reason(missed) == expected
    assert isinstance(missed, Miss)
    assert missed.ticket
    stored = await house.cache.store(missed.ticket, ANSWER)
    assert [step.name for step in stored.steps] == ["store"]  # not embedded once more
    assert isinstance(await house.ask(text), Hit)
    assert len(house.spaces) == 1


async def test_an_embedder_that_raises_is_a_miss_and_the_exact_tier_goes_on(house: House) -> None:
    await house.teach(TEXT)
    house.embedder.error = RuntimeError("tensor size mismatch")
    missed = await house.ask(SIMILAR)
    assert reason(missed) == "embedder-error"
    assert isinstance(missed, Miss)
    assert missed.ticket
    assert (await house.cache.store(missed.ticket, ANSWER)).is_stored
    assert isinstance(await house.ask(SIMILAR), Hit)


async def test_without_an_embedder_the_exact_tier_works() -> None:
    house = built(Policy(), NoEmbedder(), Moody())
    await house.teach(TEXT)
    assert isinstance(await house.ask(TEXT), Hit)
    assert reason(await house.ask(SIMILAR)) == "no-embedder"


async def test_a_store_that_is_down_is_a_miss_that_stores_nothing(house: House) -> None:
    house.entries.is_down = True
    missed = await house.ask(TEXT)
    assert missed == Miss("store-down", missed.steps, None)


async def test_a_store_going_down_between_the_tiers_is_a_miss(house: House) -> None:
    await house.teach(TEXT)
    lookup = house.cache.begin(asked(SIMILAR), deadline=soon())
    house.entries.is_down = True
    assert reason(await lookup.result()) == "store-down"


async def test_a_store_going_down_before_the_write_is_a_fact(house: House) -> None:
    missed = await house.ask(TEXT)
    assert isinstance(missed, Miss)
    assert missed.ticket
    house.entries.is_down = True
    stored = await house.cache.store(missed.ticket, ANSWER)
    assert (stored.is_stored, stored.reason) == (False, "store-down")
    assert len(house.spaces) == 0


async def test_an_answer_over_the_limit_is_not_stored(house: House) -> None:
    missed = await house.ask(TEXT)
    assert isinstance(missed, Miss)
    assert missed.ticket
    stored = await house.cache.store(missed.ticket, Answer("a", b"x" * 4000))
    assert (stored.is_stored, stored.reason) == (False, "too-large")


async def test_a_flush_hides_all_and_stops_writes_under_way(house: House) -> None:
    await house.teach(TEXT)
    under_way = await house.ask("another question of the shop")
    assert isinstance(under_way, Miss)
    assert under_way.ticket
    await house.cache.flush("team-a")
    stored = await house.cache.store(under_way.ticket, ANSWER)
    assert (stored.is_stored, stored.reason) == (False, "invalidated")
    assert reason(await house.ask(TEXT)) == "absent"
    assert reason(await house.ask(SIMILAR)) == "absent"
    assert len(house.spaces) == 0


async def test_a_forgotten_entry_answers_nobody(house: House) -> None:
    await house.teach(TEXT)
    hit = await house.ask(TEXT)
    assert isinstance(hit, Hit)
    assert await house.cache.forget("team-a", hit.entry.entry_id)
    assert reason(await house.ask(SIMILAR)) == "absent"
    assert not await house.cache.forget("team-a", hit.entry.entry_id)


async def test_a_flush_that_did_not_happen_is_said(house: House) -> None:
    house.entries.is_down = True
    with pytest.raises(StoreUnavailable):
        await house.cache.flush("team-a")


async def test_a_refresh_replaces_without_reading(house: House) -> None:
    await house.teach(TEXT)
    ticket = await house.cache.ticket(asked(TEXT), deadline=soon())
    assert ticket
    await house.cache.store(ticket, Answer("new", b"new"))
    hit = await house.ask(TEXT)
    assert isinstance(hit, Hit)
    assert hit.entry.answer.text == "new"
    assert len(house.spaces) == 1


async def test_there_is_no_ticket_while_the_store_is_down(house: House) -> None:
    house.entries.is_down = True
    assert await house.cache.ticket(asked(TEXT), deadline=soon()) is None


async def test_a_look_up_cancelled_or_left_does_no_harm(house: House) -> None:
    house.cache.begin(asked(TEXT), deadline=soon()).cancel()
    house.cache.begin(asked(TEXT), deadline=soon())
    await house.teach(TEXT)
    task = asyncio.ensure_future(house.look_up(asked(SIMILAR)))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gc.collect()
    assert isinstance(await house.ask(SIMILAR), Hit)


async def test_what_is_shown_of_the_cache_tells_no_content(house: House) -> None:
    await house.teach(TEXT)
    outcome = await house.ask(SIMILAR)
    shown = repr(house.cache) + repr(outcome)
    assert "password" not in shown
    assert "Paris" not in shown
