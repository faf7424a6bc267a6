"""Which answers are checked, by whom, and what is noted of it; and what a judge's faults come to."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from cache import Answer, Audits, Books, EmbedQueue, Exchange, Hit, NoEmbedder, Rules, Sampling, Ticket
from cache.evidence import AgreementJudge
from cache.evidence.events import Aliased, Audit, Event, Raised
from cache.model import Near
from cache.testing import HashEmbedder, MemoryEntries
from tests.cache.parts import SECRET, asked, entry_for, soon, ticket_for
from tests.valkey import eventually

NEW, STORED = "how do i reset my password", "how can i reset my password"
Opinion = Callable[[Exchange], bool | None]


class Judging:
    """A judge of a test's opinion."""

    name = "test"

    def __init__(self, opinion: Opinion) -> None:
        self.opinion = opinion
        self.asked: list[Exchange] = []

    async def agrees(self, exchange: Exchange) -> bool | None:
        self.asked.append(exchange)
        return self.opinion(exchange)


class Noted(Books):
    """Keeps what is noted; there is no store."""

    def __init__(self) -> None:
        super().__init__(NotThere(), secret=SECRET, rules=lambda _: Rules())
        self.events: list[Event] = []

    def note(self, namespace: str, *found: Event) -> None:
        self.events.extend(found)


class NotThere:
    def execute(self, *command: object, deadline: float | None = None) -> asyncio.Future[object]:
        raise ConnectionError

    async def script(self, source: str, **more: object) -> object:
        raise ConnectionError

    async def wait_replicas(self, count: int, timeout_ms: int, *, like_key: object) -> int:
        raise ConnectionError


@asynccontextmanager
async def auditing(judge: Judging, **sampling: float) -> AsyncIterator[tuple[Audits, Noted, Ticket]]:
    """One entry is stored; the ticket is that of a question near it."""
    entries, books = MemoryEntries(secret=SECRET), Noted()
    stored = asked(STORED)
    found = await entries.find(stored, 1, deadline=soon())
    entry = entry_for(stored, at_s=1e9, ttl_s=1e10, answer=Answer("Use the link.", b"{}"))
    assert await entries.put(ticket_for(stored, found.epoch), entry, deadline=soon())
    audits = Audits(
        books,
        entries,
        judge,
        sampling=Sampling(**({"shadow_share": 1.0} | sampling)),  # type: ignore[arg-type]  # its own fields
        rng=random.Random(1),
        wall=lambda: 5.0,
    )
    near = Near(entry.entry_id, 0.93)
    ticket = Ticket(asked(NEW), 1, found.epoch, near=near)
    task = asyncio.create_task(audits.run())
    try:
        yield audits, books, ticket
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_a_miss_near_a_stored_question_is_judged_by_its_fresh_answer() -> None:
    judge = Judging(lambda _: True)
    async with auditing(judge) as (audits, books, ticket):
        audits.note_stored(ticket, Answer("Follow the link.", b"{}"))
        await eventually(lambda: audits.counts.judged == 1)
    assert judge.asked == [Exchange(NEW, "Follow the link.", STORED, "Use the link.")]
    found, alias = books.events
    assert alias == Aliased(1, ticket.near.entry_id if ticket.near else 0)
    assert isinstance(found, Audit)
    assert (found.is_right, found.source, found.draw, found.would_serve, found.judge) == (
        True, "shadow", 1.0, False, "test",
    )  # fmt: skip


async def test_a_hit_that_was_drawn_is_judged_and_a_wrong_one_raises_its_entry() -> None:
    async with auditing(Judging(lambda _: False)) as (audits, books, ticket):
        entry = entry_for(asked(STORED), at_s=1e9)
        hit = Hit("semantic", entry, 0.97, 1.0, ())
        audits.note_served(ticket.question, hit, "Something else.", question_id=1, draw=0.02)
        await eventually(lambda: audits.counts.judged == 1)
    found, alone, raised = books.events
    assert alone == Aliased(entry.entry_id, entry.entry_id)
    assert isinstance(found, Audit)
    assert (found.source, found.draw, found.is_right, found.would_serve) == ("served", 0.02, False, True)
    assert raised == Raised(entry.entry_id, 0.97, 5.0)


async def test_an_entry_that_was_wrong_for_a_miss_is_raised_too() -> None:
    async with auditing(Judging(lambda _: False)) as (audits, books, ticket):
        audits.note_stored(ticket, Answer("Something else.", b"{}"))
        await eventually(lambda: audits.counts.judged == 1)
    assert ticket.near is not None
    assert books.events[-1] == Raised(ticket.near.entry_id, 0.93, 5.0)


async def test_what_a_veto_refuses_anyway_neither_teaches_nor_raises() -> None:
    async with auditing(Judging(lambda _: False)) as (audits, books, ticket):
        other = msgspec.structs.replace(ticket, question=asked("how can i reset 2 passwords"))
        audits.note_stored(other, Answer("Something else.", b"{}"))
        await eventually(lambda: audits.counts.judged == 1)
    assert [type(event) for event in books.events] == [Aliased]


async def test_a_judge_that_cannot_tell_finds_nothing() -> None:
    async with auditing(Judging(lambda _: None)) as (audits, books, ticket):
        audits.note_stored(ticket, Answer("a", b""))
        await eventually(lambda: audits.counts.unjudged == 1)
        assert books.events == []


async def test_a_judge_that_fails_finds_nothing_and_audits_go_on() -> None:
    def fail(_: Exchange) -> bool:
        if len(judge.asked) == 1:
            raise RuntimeError
        return True

    judge = Judging(fail)
    async with auditing(judge) as (audits, books, ticket):
        for _ in range(2):
            audits.note_stored(ticket, Answer("a", b""))
        await eventually(lambda: audits.counts.judged == 1)
        assert audits.counts.unjudged == 1
        assert [type(event) for event in books.events] == [Audit, Aliased]


async def test_a_full_queue_drops_audits_and_says_how_many() -> None:
    async with auditing(Judging(lambda _: True)) as (audits, _, ticket):
        for _ in range(1_000):  # in one turn of the loop: nothing is taken out meanwhile
            audits.note_stored(ticket, Answer("a", b""))
        assert audits.counts.dropped >= 700


async def test_no_more_than_so_many_are_judged_in_a_minute() -> None:
    async with auditing(Judging(lambda _: True), per_minute=3) as (audits, _, ticket):
        for _ in range(10):
            audits.note_stored(ticket, Answer("a", b""))
        await eventually(lambda: audits.counts.dropped == 7)
        assert audits.counts.judged == 3


async def test_only_a_share_of_misses_is_drawn_and_the_share_is_noted() -> None:
    async with auditing(Judging(lambda _: True), shadow_share=0.3, per_minute=10_000) as (
        audits,
        books,
        ticket,
    ):
        for _ in range(200):
            audits.note_stored(ticket, Answer("a", b""))
            await asyncio.sleep(0)  # so that none is dropped
        await eventually(lambda: not audits.waiting)
    found = [event.draw for event in books.events if isinstance(event, Audit)]
    assert 30 <= len(found) <= 90
    assert set(found) == {0.3}


async def test_a_miss_without_a_neighbour_or_matched_exactly_only_is_not_audited() -> None:
    judge = Judging(lambda _: True)
    async with auditing(judge) as (audits, _, ticket):
        audits.note_stored(Ticket(asked(NEW), 1, None), Answer("a", b""))
        exact = asked(NEW).__class__(ticket.question.partition, NEW, skip_semantic="payload")
        audits.note_stored(Ticket(exact, 1, None, near=ticket.near), Answer("a", b""))
        await eventually(lambda: not audits.waiting)
    assert judge.asked == []


@pytest.fixture
async def agreement() -> AsyncIterator[AgreementJudge]:
    queue = EmbedQueue(HashEmbedder())
    yield AgreementJudge(queue)
    queue.close()


def answers(fresh: str, stored: str) -> Exchange:
    return Exchange("q", fresh, "p", stored)


@pytest.mark.parametrize(
    ("fresh", "stored", "agrees"),
    [
        ("Use the link in the mail.", "Use the link in the mail.", True),
        ("Use the link in the mail we sent.", "Use the link in the mail we sent you.", True),
        ("It takes 3 days for the transfer.", "It takes 5 days for the transfer.", False),
        ("You can do it in the app.", "You can not do it in the app.", False),
        ("Use the link in the mail.", "Call a branch and ask somebody there.", False),
    ],
)
async def test_answers_agree_by_what_they_say(
    agreement: AgreementJudge, fresh: str, stored: str, agrees: bool
) -> None:
    assert await agreement.agrees(answers(fresh, stored)) is agrees


async def test_answers_that_cannot_be_read_are_not_judged(agreement: AgreementJudge) -> None:
    assert await agreement.agrees(answers("word " * 300, "other " * 300)) is None
    assert await AgreementJudge(NoEmbedder()).agrees(answers("one thing", "another thing")) is None


async def test_a_pair_that_a_veto_refuses_is_not_learned_from() -> None:
    async with auditing(Judging(lambda _: False)) as (audits, books, ticket):
        vetoed = asked("how do i not reset my password")
        audits.note_stored(Ticket(vetoed, 1, None, near=ticket.near), Answer("a", b""))
        await eventually(lambda: audits.counts.judged == 1)
    assert [type(event) for event in books.events] == [Aliased]
