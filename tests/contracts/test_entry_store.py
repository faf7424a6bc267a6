"""What every entry store promises: nothing but valid entries of the asked partition, and no write from before."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from cache import Answer, EntryStore, Question, RedisEntries, StoreUnavailable
from cache.identity import answer_id
from cache.testing import MemoryEntries
from tests.cache.parts import ANSWER, SECRET, Clock, asked, entry_for, part, real_store, soon, ticket_for


@dataclass
class Kept:
    entries: EntryStore
    clock: Clock
    break_down: Callable[[], Awaitable[None]]

    async def find(self, question: Question) -> Answer | None:
        found = await self.entries.find(question, self.id_of(question), deadline=soon())
        return None if found.entry is None else found.entry.answer

    async def put(self, question: Question) -> str:
        epoch = (await self.entries.find(question, 1, deadline=soon())).epoch
        entry = entry_for(question, at_s=self.clock())
        return await self.entries.put(ticket_for(question, epoch), entry, deadline=soon())

    @staticmethod
    def id_of(question: Question) -> int:
        return ticket_for(question, None).entry_id


@pytest.fixture(params=["redis", "memory"])
async def kept(request: pytest.FixtureRequest) -> AsyncIterator[Kept]:
    clock = Clock()
    if request.param == "memory":
        memory = MemoryEntries(secret=SECRET, wall=clock)

        async def fail() -> None:
            memory.is_down = True

        yield Kept(memory, clock, fail)
        return
    async with real_store() as (server, client):
        yield Kept(RedisEntries(client, secret=SECRET, wall=clock), clock, server.kill)


async def test_a_stored_entry_is_found_as_it_was(kept: Kept) -> None:
    question = asked()
    assert await kept.put(question) == "stored"
    found = await kept.entries.find(question, kept.id_of(question), deadline=soon())
    assert found.entry == entry_for(question, at_s=kept.clock())


async def test_a_first_look_up_already_gives_an_epoch_that_stays(kept: Kept) -> None:
    first = await kept.entries.find(asked("one"), 1, deadline=soon())
    second = await kept.entries.find(asked("two"), 2, deadline=soon())
    assert first.epoch
    assert first.epoch == second.epoch


async def test_an_id_shared_by_two_texts_is_absent_for_the_other(kept: Kept) -> None:
    await kept.put(asked("the stored text"))
    other = asked("another text")
    found = await kept.entries.find(other, kept.id_of(asked("the stored text")), deadline=soon())
    assert found.entry is None


async def test_an_id_shared_by_two_partitions_is_absent_in_the_other(kept: Kept) -> None:
    question = asked()
    await kept.put(question)
    elsewhere = replace(question, partition=part(material=b"model=other"))
    await kept.put(replace(elsewhere, text="so that the epoch exists"))
    found = await kept.entries.find(elsewhere, kept.id_of(question), deadline=soon())
    fetched = await kept.entries.fetch(elsewhere.partition, [kept.id_of(question)], deadline=soon())
    assert found.entry is None
    assert fetched == [None]


async def test_an_entry_past_its_time_is_absent(kept: Kept) -> None:
    question = asked()
    await kept.put(question)
    kept.clock.at_s += 60.0
    assert await kept.find(question) is None
    assert await kept.entries.fetch(question.partition, [kept.id_of(question)], deadline=soon()) == [None]


async def test_what_is_past_its_time_already_is_not_stored(kept: Kept) -> None:
    question = asked()
    epoch = (await kept.entries.find(question, 1, deadline=soon())).epoch
    late = entry_for(question, at_s=kept.clock() - 61.0)
    assert await kept.entries.put(ticket_for(question, epoch), late, deadline=soon()) == "invalidated"


async def test_fetch_keeps_the_order_and_says_what_is_absent(kept: Kept) -> None:
    await kept.put(asked("one"))
    await kept.put(asked("two"))
    ids = [kept.id_of(asked(text)) for text in ("two", "never stored", "one")]
    entries = await kept.entries.fetch(part(), ids, deadline=soon())
    assert [entry and entry.question for entry in entries] == ["two", None, "one"]


async def test_a_removed_entry_is_absent(kept: Kept) -> None:
    question = asked()
    await kept.put(question)
    assert await kept.entries.remove("team-a", [kept.id_of(question)], deadline=soon())
    assert await kept.find(question) is None
    assert not await kept.entries.remove("team-a", [kept.id_of(question)], deadline=soon())


async def test_a_flush_hides_the_namespace_and_no_other(kept: Kept) -> None:
    ours, theirs = asked(), asked(of=part("team-b"))
    await kept.put(ours)
    await kept.put(theirs)
    await kept.entries.flush("team-a", deadline=soon())
    assert await kept.find(ours) is None
    assert await kept.find(theirs) is not None


async def test_a_write_that_began_before_a_flush_comes_to_nothing(kept: Kept) -> None:
    question = asked()
    epoch = (await kept.entries.find(question, 1, deadline=soon())).epoch
    await kept.entries.flush("team-a", deadline=soon())
    entry = entry_for(question, at_s=kept.clock())
    assert await kept.entries.put(ticket_for(question, epoch), entry, deadline=soon()) == "invalidated"
    assert await kept.find(question) is None


@pytest.mark.parametrize("owner", ["team-a", None])
async def test_a_write_that_began_in_another_era_comes_to_nothing(kept: Kept, owner: str | None) -> None:
    question = asked()
    epoch = (await kept.entries.find(question, 1, deadline=soon())).epoch
    await kept.entries.begin_era(owner, deadline=soon())
    entry = entry_for(question, at_s=kept.clock())
    assert await kept.entries.put(ticket_for(question, epoch), entry, deadline=soon()) == "invalidated"
    assert await kept.put(question) == "stored"


async def test_a_new_era_hides_nothing(kept: Kept) -> None:
    await kept.put(asked())
    await kept.entries.begin_era("team-a", deadline=soon())
    assert await kept.find(asked()) is not None


async def test_several_are_removed_at_once_and_counted(kept: Kept) -> None:
    texts = ["one", "two", "three"]
    for text in texts:
        await kept.put(asked(text))
    ids = [kept.id_of(asked(text)) for text in ("one", "three", "never stored")]
    assert await kept.entries.remove("team-a", ids, deadline=soon()) == 2
    assert [await kept.find(asked(text)) is None for text in texts] == [True, False, True]


async def test_nothing_is_stored_without_an_epoch(kept: Kept) -> None:
    question = asked()
    entry = entry_for(question, at_s=kept.clock())
    assert await kept.entries.put(ticket_for(question, None), entry, deadline=soon()) == "invalidated"


async def test_a_store_that_is_down_is_named_so_by_every_method(kept: Kept) -> None:
    question = asked()
    await kept.break_down()
    entry = entry_for(question, at_s=kept.clock())
    with pytest.raises(StoreUnavailable):
        await kept.entries.find(question, 1, deadline=soon())
    with pytest.raises(StoreUnavailable):
        await kept.entries.fetch(question.partition, [1], deadline=soon())
    with pytest.raises(StoreUnavailable):
        await kept.entries.put(ticket_for(question, b"8 bytes!"), entry, deadline=soon())
    with pytest.raises(StoreUnavailable):
        await kept.entries.remove("team-a", [1], deadline=soon())
    with pytest.raises(StoreUnavailable):
        await kept.entries.flush("team-a", deadline=soon())


@pytest.mark.parametrize("is_down", [False, True])
async def test_a_look_up_left_or_cancelled_does_no_harm(kept: Kept, is_down: bool) -> None:
    question = asked()
    if is_down:
        await kept.break_down()
    kept.entries.find(question, 1, deadline=soon()).cancel()
    kept.entries.find(question, 1, deadline=soon())
    gc.collect()  # an exception or a coroutine left behind would be complained of here


async def test_a_blocked_answer_goes_and_is_not_stored_for_its_question_again(kept: Kept) -> None:
    question = asked()
    await kept.put(question)
    wrong = answer_id(SECRET, ANSWER.text)
    await kept.entries.block(question.partition.namespace, kept.id_of(question), wrong, deadline=soon())
    assert await kept.find(question) is None
    assert await kept.put(question) == "blocked"
    assert await kept.put(asked("What is the capital of Spain?")) == "stored"


async def test_another_answer_to_a_question_with_a_blocked_one_is_stored(kept: Kept) -> None:
    question = asked()
    other = answer_id(SECRET, "Lyon")
    await kept.entries.block(question.partition.namespace, kept.id_of(question), other, deadline=soon())
    assert await kept.put(question) == "stored"
