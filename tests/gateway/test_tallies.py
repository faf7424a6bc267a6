"""What the cache did is counted by namespace and day, over all workers, within bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from auth import Prices
from cache import Answer, Entry, Hit, Miss
from gateway.evidence.tallies import Tallies
from gateway.store.client import StoreClient
from gateway.telemetry.timeline import Timeline
from tests.valkey import running_valkey

LABEL = "acme/default/m1"
DAY = 20_000
NOON_S = (DAY + 0.5) * 86_400
HOUR_S = 3_600
MISS = Miss("absent", ())
Opened = Callable[..., Tallies]


@pytest.fixture
async def opened() -> AsyncIterator[Opened]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=5.0) as store:

        def tallies(at_s: float = NOON_S) -> Tallies:
            """Of one worker at this time."""
            prices = Prices({"m1": (1.0, 2.0)})
            return Tallies(store, secret=b"s" * 32, prices=prices, wall=lambda: at_s)

        yield tallies


def hit(entry_id: int = 1, tier: str = "exact", origin: Mapping[str, str] | None = None) -> Hit:
    entry = Entry(entry_id, "?", Answer("text", b"", origin or {}), 0.0, 0.0)
    return Hit(tier, entry, 1.0, 0.0, ())  # type: ignore[arg-type] # any tier counts


def timeline() -> Timeline:
    made = Timeline("POST /", trace_id=1, is_sampled=False)
    made.model = "m1"
    made.started = made.ended = 0.0  # it took no time
    return made


async def test_hits_of_two_workers_add_up_with_what_their_answers_cost_when_they_were_made(
    opened: Opened,
) -> None:
    one, other = opened(), opened()
    made = {"input_tokens": "1000000", "output_tokens": "500000", "took_ms": "1500"}
    one.note(LABEL, hit(origin=made), timeline())
    other.note(LABEL, hit(tier="semantic", origin=made), timeline())
    other.note(LABEL, MISS, timeline())
    for tallies in (one, other):
        await tallies.flush()
    totals = (await one.read(1))[LABEL]
    assert (totals.requests, totals.hits) == (3, {"exact": 1, "semantic": 1})
    assert totals.refusals == {"absent": 1}
    assert totals.saved == {"input_tokens": 2e6, "output_tokens": 1e6, "seconds": 3.0, "cost": 4.0}


async def test_an_answer_whose_making_was_not_measured_saves_nothing_that_is_known(opened: Opened) -> None:
    tallies = opened()
    tallies.note(LABEL, hit(), timeline())
    await tallies.flush()
    assert set((await tallies.read(1))[LABEL].saved.values()) == {0.0}


async def test_entries_are_told_by_how_often_they_were_served(opened: Opened) -> None:
    tallies = opened()
    for entry_id in (7, 9, 9):
        tallies.note(LABEL, hit(entry_id), timeline())
    await tallies.flush()
    entries = (await tallies.read(1))[LABEL].entries
    assert entries.most_common() == [(f"{9:016x}", 2), (f"{7:016x}", 1)]


async def test_an_entry_served_often_stays_known_among_very_many(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.evidence.tallies._ENTRIES", 20)
    tallies = opened()
    for entry_id in range(200):
        tallies.note(LABEL, hit(99), timeline())
        tallies.note(LABEL, hit(1000 + entry_id), timeline())
        if entry_id % 10 == 9:
            await tallies.flush()
    entries = (await tallies.read(1))[LABEL].entries
    assert entries[f"{99:016x}"] == 200
    assert len(entries) <= 20


async def test_only_the_days_that_are_asked_for_count(opened: Opened) -> None:
    for days_ago in (0, 1, 2):
        tallies = opened(NOON_S - days_ago * 86_400)
        tallies.note_bypass(LABEL, "freshness")
        await tallies.flush()
    now = opened()
    assert [(await now.read(days))[LABEL].refusals["freshness"] for days in (1, 2, 31)] == [1, 2, 3]


async def test_requests_are_counted_from_an_hour_on(opened: Opened) -> None:
    for hours_ago in (0, 1, 2, 30):
        tallies = opened(NOON_S - hours_ago * HOUR_S)
        tallies.note(LABEL, MISS, timeline())
        await tallies.flush()
    now = opened()
    since = {NOON_S: 1, NOON_S - 60: 2, NOON_S - HOUR_S: 2, NOON_S - 3 * HOUR_S: 3, NOON_S - 40 * HOUR_S: 4}
    assert {at_s: await now.requests_since(LABEL, at_s) for at_s in since} == since


async def test_another_tenants_namespaces_are_not_read(opened: Opened) -> None:
    tallies = opened()
    tallies.note(LABEL, MISS, timeline())
    tallies.note("acme-2/default/m1", MISS, timeline())
    await tallies.flush()
    assert set(await tallies.read(1, tenant="acme")) == {LABEL}
    assert await tallies.read(1, tenant="nobody") == {}


async def test_namespaces_beyond_the_bound_are_not_counted(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.evidence.tallies._NAMESPACES", 2)
    tallies = opened()
    for number in range(5):
        tallies.note(f"acme/n{number}/m1", MISS, timeline())
    await tallies.flush()
    assert len(await tallies.read(1)) == 2
