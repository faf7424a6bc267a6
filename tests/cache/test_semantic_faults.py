"""The cache when its store is away, its entries are flushed or its caller leaves, on fakes: facts, never errors."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from cache import Answer, EmbedQueue, Hit, Miss, Policy, StoreUnavailable
from tests.cache.house import SIMILAR, TEXT, House, Moody, built, reason
from tests.cache.parts import ANSWER, asked, soon


@pytest.fixture
async def house() -> AsyncIterator[House]:
    embedder = Moody()
    queue = EmbedQueue(embedder)
    yield built(Policy(threshold=0.8), queue, embedder)
    queue.close()


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
