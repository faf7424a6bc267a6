"""Evidence shared by workers over a real store: sent, added up by one at a time, followed by all, kept for good."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from cache import Books, Rules
from cache.acceptance import Features, read
from cache.evidence.drift import ALARM, WINDOW
from cache.evidence.events import Audit, Raised
from gateway.store.client import StoreClient
from tests.cache.parts import SECRET, connected, real_store
from tests.valkey import Valkey

NAMESPACE = "acme/default/m1"
RULES = Rules("guarded", budget=0.1)


def books(store: StoreClient, *, settle_every_s: float = 0.001, rules: Rules = RULES) -> Books:
    return Books(store, secret=SECRET, rules=lambda _: rules, settle_every_s=settle_every_s)


def audit(*, is_right: bool = True) -> Audit:
    return Audit(Features(0.96, 0.8).row(), is_right, "served", 0.02, True, 0.96, "agreement", 1.0)


@pytest.fixture
async def store() -> AsyncIterator[tuple[Valkey, StoreClient]]:
    async with real_store() as (server, client):
        yield server, client


async def settled(*all_books: Books) -> None:
    """Every one sends, settles and follows, until nothing more can come of it."""
    for _ in range(2):
        for each in all_books:
            await each.tick()
            await asyncio.sleep(0.002)  # the lease of a millisecond runs out


async def test_what_workers_find_is_added_up_and_known_to_all(store: tuple[Valkey, StoreClient]) -> None:
    one, other, idle = (books(store[1]) for _ in range(3))
    idle.of(NAMESPACE)
    one.note(NAMESPACE, *(audit() for _ in range(10)))
    other.note(NAMESPACE, *(audit() for _ in range(15)), Raised(7, 0.97, 1.0))
    other.note_text(NAMESPACE, read("reset password"))
    await settled(one, other, idle)
    for each in (one, other, idle):
        ruling = each.of(NAMESPACE)
        assert ruling.standing.wrong_share.audits == 25
        assert ruling.standing.reason == "within-budget"
        assert ruling.raised == {7: (0.97, 1.0)}
        assert ruling.words.texts == 1


async def test_no_event_is_counted_twice_however_many_workers_settle_at_once(
    store: tuple[Valkey, StoreClient],
) -> None:
    workers = [books(store[1]) for _ in range(4)]
    for _ in range(10):
        for worker in workers:
            worker.note(NAMESPACE, audit())
        await asyncio.gather(*(worker.tick() for worker in workers))
        await asyncio.sleep(0.002)
    await settled(*workers)
    assert {worker.of(NAMESPACE).standing.wrong_share.audits for worker in workers} == {40}


async def test_one_worker_at_a_time_settles(store: tuple[Valkey, StoreClient]) -> None:
    one, other = (books(store[1], settle_every_s=60) for _ in range(2))
    one.note(NAMESPACE, audit())
    await one.tick()
    other.note(NAMESPACE, audit())
    await other.tick()  # within the first one's lease
    assert other.of(NAMESPACE).standing.version == 1
    assert other.of(NAMESPACE).standing.wrong_share.audits == 1


async def test_after_a_restart_it_stands_as_before(store: tuple[Valkey, StoreClient]) -> None:
    server, client = store
    before = books(client)
    before.note(NAMESPACE, *(audit(is_right=False) for _ in range(10)))
    await before.blocked.add((1, 2))
    await settled(before)
    assert before.of(NAMESPACE).standing.state == "tripped"
    await server.stop()
    await server.start()
    async with connected(server) as again:
        after = books(again)
        await after.catch_up()
        assert after.of(NAMESPACE).standing == before.of(NAMESPACE).standing
        assert after.blocked.known.is_pair(1, 2)


async def test_a_blocked_pair_is_known_to_others_at_their_next_tick(
    store: tuple[Valkey, StoreClient],
) -> None:
    one, other = books(store[1]), books(store[1])
    await one.blocked.add((1, 2))
    assert one.blocked.known.is_pair(1, 2)
    await other.tick()
    assert other.blocked.known.is_pair(1, 2)
    assert not other.blocked.known.is_pair(2, 1)


async def test_what_was_found_while_the_store_was_away_is_sent_when_it_is_back(
    store: tuple[Valkey, StoreClient],
) -> None:
    server, client = store
    worker = books(client)
    worker.note(NAMESPACE, audit())
    await server.stop()
    with pytest.raises((ConnectionError, TimeoutError)):
        await worker.tick()
    worker.note(NAMESPACE, audit())
    await server.start()
    async with connected(server):
        async with asyncio.timeout(10):
            while worker.of(NAMESPACE).standing.wrong_share.audits < 2:
                try:
                    await worker.tick()
                except OSError:
                    await asyncio.sleep(0.01)


async def test_what_waits_is_bounded(store: tuple[Valkey, StoreClient]) -> None:
    worker = books(store[1])
    for _ in range(2_100):
        worker.note(NAMESPACE, audit())
    assert worker.dropped == 100


async def test_the_store_holds_no_word_and_no_name_of_a_key(store: tuple[Valkey, StoreClient]) -> None:
    worker = books(store[1])
    worker.note_text(NAMESPACE, read("kettle"))
    await settled(worker)
    for key in await store[1].execute("KEYS", "eg:*"):
        assert b"kettle" not in key
        kind = await store[1].execute("TYPE", key)
        if kind in (b"string", "string"):
            assert b"kettle" not in await store[1].execute("GET", key)


async def test_questions_that_became_others_raise_one_alarm_and_audits_from_before_count_no_more(
    store: tuple[Valkey, StoreClient],
) -> None:
    one, other = books(store[1]), books(store[1])
    short, long = read("reset my password"), read(" ".join(f"word{at}" for at in range(60)))
    for _ in range(WINDOW):
        one.note_text(NAMESPACE, short)
    one.note(NAMESPACE, *(audit() for _ in range(30)))
    await settled(one, other)
    assert one.of(NAMESPACE).standing.reason == "within-budget"

    for _ in range(WINDOW // 2):  # half of a window each
        one.note_text(NAMESPACE, long)
        other.note_text(NAMESPACE, long)
    await settled(one, other)
    for each in (one, other):
        found = each.of(NAMESPACE).standing
        assert (found.drift_alarms, found.reason, found.wrong_share.audits) == (1, "few-audits", 0)
        assert found.divergence > ALARM
    assert one.drift_alarms + other.drift_alarms == 1


BORROWING = Rules("learned", budget=0.1, is_strict=True, borrow_from="acme/")


@pytest.mark.parametrize(
    ("rules", "lender", "evidence"),
    [
        (BORROWING, "acme/faq/m1", "borrowed"),
        (BORROWING, "umbrella/faq/m1", "own"),
        (replace(BORROWING, borrow_from=""), "acme/faq/m1", "own"),
    ],
)
async def test_a_namespace_with_little_evidence_borrows_where_it_may(
    store: tuple[Valkey, StoreClient], rules: Rules, lender: str, evidence: str
) -> None:
    worker = books(store[1], rules=rules)
    worker.note(lender, *(scored(0.80 + at / 2_000) for at in range(400)))
    await settled(worker)
    worker.note(NAMESPACE, *(scored(0.80 + at / 200) for at in range(40)))
    await settled(worker)
    assert worker.of(lender).standing.evidence == "own"
    assert worker.of(NAMESPACE).standing.evidence == evidence
    assert worker.of(NAMESPACE).standing.audits == 40


def scored(cosine: float) -> Audit:
    """Right where it is near enough."""
    return replace(audit(is_right=cosine > 0.84), row=Features(cosine, 0.8).row(), similarity=cosine)
