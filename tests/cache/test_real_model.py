"""The default policy on the real model and a real store: what is served by meaning, and what never is."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from cache import (
    Answer,
    EmbedQueue,
    Hit,
    Miss,
    OnnxEmbedder,
    Question,
    RedisEntries,
    Rules,
    SemanticCache,
    Spaces,
    Unaudited,
)
from tests.cache.parts import SECRET, asked, real_store, soon
from tests.cache.prepared import prepared_model


@dataclass
class Shop:
    cache: SemanticCache

    async def look_up(self, question: Question) -> Hit | Miss:
        return await self.cache.begin(question, deadline=soon()).result()

    async def ask(self, text: str) -> str:
        """The answer's text, or the reason for the miss, whose own answer is then stored."""
        outcome = await self.look_up(asked(text))
        if isinstance(outcome, Hit):
            return outcome.entry.answer.text
        assert outcome.ticket
        assert (await self.cache.store(outcome.ticket, Answer(f"to: {text}", b"{}"))).is_stored
        return outcome.reason


@pytest.fixture
async def shop() -> AsyncIterator[Shop]:
    queue = EmbedQueue(OnnxEmbedder(prepared_model()))
    async with real_store() as (_, store):
        entries = RedisEntries(store, secret=SECRET)
        # The test asks what is served, not how fast on a loaded machine.
        yield Shop(
            SemanticCache(
                entries,
                queue,
                Spaces(),
                Unaudited(Rules()),
                secret=SECRET,
                ttl_s=60,
                semantic_deadline_s=5.0,
            )
        )
    queue.close()


@pytest.mark.parametrize(
    ("stored", "new"),
    [
        ("How do I reset my password?", "How can I reset my password?"),
        ("How many days are in a week?", "How many days are there in a week?"),
        ("What color is the sky?", "What colour is the sky?"),
        ("How do I boil an egg?", "How can I boil an egg?"),
        ("How do plants make food?", "How do plants make their food?"),
    ],
)
async def test_a_paraphrase_is_answered_by_meaning(shop: Shop, stored: str, new: str) -> None:
    await shop.ask(stored)
    hit = await shop.look_up(asked(new))
    assert isinstance(hit, Hit)
    assert (hit.tier, hit.entry.question) == ("semantic", stored)
    assert hit.similarity >= 0.955


@pytest.mark.parametrize(
    ("stored", "new", "reason"),
    [
        ("Convert 40 pounds to kilos", "Convert 40 kilos to pounds", "veto-number"),
        ("Did Ana pay Bo?", "Did Bo pay Ana?", "veto-order"),
        ("translate nl to de", "translate de to nl", "veto-order"),
        ("Is a lion stronger than a tiger?", "Is a tiger stronger than a lion?", "veto-order"),
        ("Say it in English and in French", "Say it in French and in English", "veto-language"),
        ("Which foods contain sugar?", "Which foods do not contain sugar?", "below-threshold"),
        ("What is the capital of France?", "What is the capital of Spain?", "below-threshold"),
    ],
)
async def test_a_near_opposite_is_refused_with_its_reason(
    shop: Shop, stored: str, new: str, reason: str
) -> None:
    await shop.ask(stored)
    assert await shop.ask(new) == reason


async def test_more_entries_never_turn_a_right_hit_into_a_wrong_one(shop: Shop) -> None:
    questions = ["What is a kettle for?", "What is a ledger for?", "Explain the purpose of a kettle"]
    served = [(text, await shop.ask(text)) for _ in range(2) for text in questions]
    for text, answer in served:
        if "kettle" in text:
            assert "ledger" not in answer
        else:
            assert "kettle" not in answer
    assert [answer for _, answer in served[3:]] == [f"to: {text}" for text in questions]


@pytest.mark.parametrize("prefix", ["lorem " * 300, "中" * 300])
async def test_texts_that_differ_beyond_the_window_never_share_an_answer(shop: Shop, prefix: str) -> None:
    await shop.ask("something short, so that there is a space to search")
    assert await shop.ask(f"{prefix} Add one and one.") == "too-long"
    assert await shop.ask(f"{prefix} Add two and two.") == "too-long"
    assert await shop.ask(f"{prefix} Add one and one.") == f"to: {prefix} Add one and one."


@pytest.mark.parametrize("text", ["lorem " * 3000, "x" * 100_000, "\x00\x01", " "])
async def test_no_text_makes_the_embedder_raise_into_the_request(shop: Shop, text: str) -> None:
    await shop.ask("something short, so that there is a space to search")
    assert isinstance(await shop.look_up(asked(text)), Miss)


async def test_half_a_surrogate_pair_is_a_miss_that_is_not_stored(shop: Shop) -> None:
    await shop.ask("something short, so that there is a space to search")
    missed = await shop.look_up(asked("What is \ud83d?"))
    assert isinstance(missed, Miss)
    assert missed.ticket
    stored = await shop.cache.store(missed.ticket, Answer("a", b"a"))
    assert (stored.is_stored, stored.reason) == (False, "not-unicode")
    assert isinstance(await shop.look_up(asked("What is \ud83d?")), Miss)


@pytest.mark.parametrize("namespace", ["org/m1:latest", "m 1", "a|b", "x}", "*", "'\"\\", "", "n" * 300])
async def test_any_namespace_and_material_keeps_to_itself(shop: Shop, namespace: str) -> None:
    own = shop.cache.partition(namespace, b"model=*|a:b}")
    question = asked("How do I reset my password?", of=own)
    missed = await shop.look_up(question)
    assert isinstance(missed, Miss)
    assert missed.ticket
    await shop.cache.store(missed.ticket, Answer("own", b"own"))
    assert isinstance(await shop.look_up(question), Hit)
    assert await shop.ask("How do I reset my password?") == "absent"
