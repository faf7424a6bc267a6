"""One call for all processes: who claims, who waits, and what becomes of a claim whose holder dies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from cache import Claims, RedisEntries, Ticket
from cache.entries.claims import Claimed
from tests.cache.parts import SECRET, asked, connected, entry_for, real_store, soon, ticket_for
from tests.valkey import Valkey


@dataclass
class Two:
    """Two processes, as far as claims can tell, and the question that both are asked."""

    one: Claims
    other: Claims
    entries: RedisEntries
    ticket: Ticket
    server: Valkey

    async def put(self, token: bytes) -> str:
        entry = entry_for(self.ticket.question, at_s=time.time())
        return await self.entries.put(replace(self.ticket, claim=token), entry, deadline=soon())


@pytest.fixture
async def two() -> AsyncIterator[Two]:
    async with real_store() as (server, store), connected(server) as second:
        entries = RedisEntries(store, secret=SECRET)
        found = await entries.find(asked(), ticket_for(asked(), b"").entry_id, deadline=soon())
        elsewhere = RedisEntries(second, secret=SECRET)
        yield Two(
            Claims(store, entries, secret=SECRET, lease_s=0.3),
            Claims(second, elsewhere, secret=SECRET, lease_s=0.3),
            entries,
            ticket_for(asked(), found.epoch),
            server,
        )


async def test_the_second_waits_and_gets_the_answer_of_the_first(two: Two) -> None:
    first = await two.one.claim(two.ticket, until=soon())
    async with two.one.held(two.ticket, first.token):
        waiting = asyncio.create_task(two.other.claim(two.ticket, until=soon()))
        await asyncio.sleep(0.5)  # longer than the lease: it is renewed
        assert not waiting.done()
        assert await two.put(first.token) == "stored"
        second = await waiting
    assert (second.token, second.has_waited) == (b"", True)
    assert second.entry is not None
    assert second.entry.question == two.ticket.question.text


async def test_where_the_first_stores_nothing_the_second_claims(two: Two) -> None:
    first = await two.one.claim(two.ticket, until=soon())
    async with two.one.held(two.ticket, first.token):
        waiting = asyncio.create_task(two.other.claim(two.ticket, until=soon()))
    second = await waiting
    assert second.entry is None
    assert second.token


async def test_one_that_died_is_waited_for_no_longer_than_its_lease(two: Two) -> None:
    await two.one.claim(two.ticket, until=soon())  # and never renewed
    began = time.monotonic()
    second = await two.other.claim(two.ticket, until=began + 5)
    assert second.token
    assert time.monotonic() - began < 5 * 0.3


async def test_who_has_waited_long_enough_goes_without(two: Two) -> None:
    first = await two.one.claim(two.ticket, until=soon())
    async with two.one.held(two.ticket, first.token):
        second = await two.other.claim(two.ticket, until=time.monotonic() + 0.05)
    assert second == Claimed(has_waited=True)


async def test_who_lost_the_claim_does_not_write_over_the_successor(two: Two) -> None:
    first = await two.one.claim(two.ticket, until=soon())
    second = await two.other.claim(two.ticket, until=soon())  # the first was paused for longer than its lease
    assert await two.put(first.token) == "superseded"
    assert await two.put(second.token) == "stored"
    assert await two.put(b"") == "stored"  # a refresh claims nothing, and may write


async def test_an_answer_that_is_too_old_for_the_question_is_not_taken(two: Two) -> None:
    await two.put(b"")
    first = await two.one.claim(two.ticket, until=soon())
    strict = replace(two.ticket, question=replace(two.ticket.question, max_age_s=0.0))
    async with two.one.held(two.ticket, first.token):
        second = await two.other.claim(strict, until=time.monotonic() + 0.05)
    assert second.entry is None


async def test_a_store_that_is_away_makes_nobody_wait(two: Two) -> None:
    await two.server.kill()
    began = time.monotonic()
    claimed = await two.one.claim(two.ticket, until=began + 60)
    assert claimed == Claimed()
    async with two.one.held(two.ticket, claimed.token):
        pass
    assert time.monotonic() - began < 5


async def test_a_lease_of_nothing_claims_nothing(two: Two) -> None:
    off = Claims(two.one._store, two.entries, secret=SECRET, lease_s=0)
    assert await off.claim(two.ticket, until=soon()) == Claimed()
    assert (await two.other.claim(two.ticket, until=soon())).token


async def test_of_many_at_once_one_claims_at_a_time(two: Two) -> None:
    calls = 0

    async def ask(claims: Claims) -> None:
        nonlocal calls
        claimed = await claims.claim(two.ticket, until=time.monotonic() + 20)
        if claimed.entry is not None:
            return
        calls += 1
        async with claims.held(two.ticket, claimed.token):
            await asyncio.sleep(0.05)
            await two.put(claimed.token)

    await asyncio.gather(*(ask(claims) for claims in (two.one, two.other) for _ in range(20)))
    assert calls == 1
