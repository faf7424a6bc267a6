"""The cache as its caller sees it, on fakes: tiers, ages, and a reason for every miss."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from cache import Answer, EmbedQueue, Hit, Miss, NoEmbedder, Policy
from tests.cache.house import SIMILAR, TEXT, House, Moody, built, reason
from tests.cache.parts import ANSWER


@pytest.fixture
async def house() -> AsyncIterator[House]:
    embedder = Moody()
    queue = EmbedQueue(embedder)
    yield built(Policy(threshold=0.8), queue, embedder)
    queue.close()


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


async def test_an_expired_entry_answers_nobody_and_is_soon_forgotten(house: House) -> None:
    await house.teach(TEXT)
    assert len(house.spaces) == 1
    house.clock.at_s += 61.0
    assert reason(await house.ask(SIMILAR)) == "absent"
    house.clock.at_s += 32.0  # those of sixteen seconds go together
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
