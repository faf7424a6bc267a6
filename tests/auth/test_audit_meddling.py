"""What shows of an audit log that somebody with access to the store has meddled with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth import AuditLog, AuditProblem, AuditReport, AuditUnavailable
from gateway.store.client import StoreClient
from tests.auth.auditing import (
    CHECKPOINTS,
    END,
    RECORDS,
    a_log,
    a_record,
    fields_of,
    grown,
    rewritten,
)
from tests.valkey import Valkey, running_valkey


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as valkey:
        yield valkey


@pytest.fixture
async def store(valkey: Valkey) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(valkey.url, deadline_s=2) as store:
        yield store


@pytest.fixture
def log(store: StoreClient) -> AuditLog:
    return a_log(store)


async def test_deleted_record_is_a_gap(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 9)
    await store.execute("XDEL", RECORDS, "4-0", "5-0", "8-0")

    report = await log.verify()

    assert report.problems == (AuditProblem("deleted", 4, 5), AuditProblem("deleted", 8, 8))
    assert not report.is_intact
    assert "records 4 to 5: deleted" in map(str, report.problems)


@pytest.mark.parametrize("number", [1, 5, 9])
async def test_edited_record_breaks_the_chain_there(log: AuditLog, store: StoreClient, number: int) -> None:
    await grown(log, 9)
    body = (await fields_of(store, number))[b"body"]
    await rewritten(store, number, {b"body": body.replace(b"ops", b"eve")})

    assert (await log.verify()).problems == (AuditProblem("edited", number, number),)


@pytest.mark.parametrize("field", [b"v", b"body", b"before", b"code"])
async def test_no_part_of_a_record_can_be_changed(log: AuditLog, store: StoreClient, field: bytes) -> None:
    await grown(log, 5)
    value = (await fields_of(store, 3))[field]
    await rewritten(store, 3, {field: value[:-1] + bytes([value[-1] ^ 1])})

    assert (await log.verify()).problems == (AuditProblem("edited", 3, 3),)


async def test_boundary_of_two_parts_cannot_be_moved(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 5)
    fields = await fields_of(store, 3)
    before, body = fields[b"before"], fields[b"body"]
    await rewritten(store, 3, {b"before": before[:-1], b"body": before[-1:] + body})

    assert (await log.verify()).problems == (AuditProblem("edited", 3, 3),)


async def test_record_of_another_place_does_not_fit(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 5)
    await rewritten(store, 3, await fields_of(store, 2))

    assert (await log.verify()).problems == (AuditProblem("edited", 3, 3),)


async def test_genuine_record_of_another_history_is_replaced(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 2)
    await log.append(replace(a_record(3), actor="eve"))
    genuine = await fields_of(store, 3)
    await store.execute("DEL", RECORDS, END)
    await grown(a_log(store), 5)
    await rewritten(store, 3, genuine)

    assert (await a_log(store).verify()).problems == (
        AuditProblem("replaced", 4, 4),  # the first that does not follow on the one before it
    )


async def test_deleted_end_is_missed(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 5)
    await store.execute("XDEL", RECORDS, "4-0", "5-0")

    assert (await a_log(store).verify()).problems == (AuditProblem("deleted", 4, 5),)


async def test_end_that_was_put_back_shows_where_a_later_one_was_seen(
    log: AuditLog, store: StoreClient
) -> None:
    await grown(log, 3)
    end = await store.execute("GET", END)
    await log.append(a_record(4))
    await store.execute("XDEL", RECORDS, "4-0")
    await store.execute("SET", END, end)

    assert (await log.verify()).problems == (AuditProblem("deleted", 4, 4),)


async def test_end_that_was_put_back_before_a_checkpoint_is_missed(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 9)
    end = await store.execute("GET", END)
    await log.append(a_record(10))
    await store.execute("XDEL", RECORDS, "10-0")
    await store.execute("SET", END, end)

    assert (await a_log(store).verify(from_checkpoint=False)).problems == (AuditProblem("deleted", 10, 10),)


async def test_end_that_is_noted_too_early_is_wrong(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 3)
    end = await store.execute("GET", END)
    await log.append(a_record(4))
    await store.execute("SET", END, end)

    assert (await a_log(store).verify()).problems == (AuditProblem("wrong end", 3, 4),)


async def test_end_of_somebody_elses_making_is_unsigned(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 3)
    await store.execute("XDEL", RECORDS, "3-0")
    await store.execute("SET", END, b"rubbish")

    problems = (await a_log(store).verify()).problems
    assert [problem.kind for problem in problems] == ["unsigned", "wrong end"]
    with pytest.raises(AuditUnavailable, match="audit key"):
        await log.append(a_record(4))


# --- trimming


async def test_trimmed_log_is_intact_where_a_checkpoint_covers_it(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 15)
    await store.execute("XTRIM", RECORDS, "MINID", "9-0")

    report = await log.verify(from_checkpoint=False)

    assert report == AuditReport(since=8, last=15, checked=7, starts_after=8, is_covered=True, problems=())
    assert report.is_intact
    assert (await log.verify()).is_intact


async def test_trimmed_log_is_not_intact_where_no_checkpoint_covers_it(
    log: AuditLog, store: StoreClient
) -> None:
    await grown(log, 15)
    await store.execute("XTRIM", RECORDS, "MINID", "13-0")

    for from_checkpoint in (False, True):
        report = await log.verify(from_checkpoint=from_checkpoint)
        assert (report.starts_after, report.is_covered, report.is_intact) == (12, False, False)
        assert report.problems == ()


async def test_edited_record_after_a_trim_is_found(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 15)
    await store.execute("XTRIM", RECORDS, "MINID", "9-0")
    await rewritten(store, 12, {b"body": b"{}"})

    assert (await log.verify(from_checkpoint=False)).problems == (AuditProblem("edited", 12, 12),)


async def test_log_that_was_emptied_shows_what_no_checkpoint_covers(
    log: AuditLog, store: StoreClient
) -> None:
    await grown(log, 15)
    await store.execute("XTRIM", RECORDS, "MAXLEN", 0)

    report = await a_log(store).verify()

    assert (report.starts_after, report.problems) == (10, (AuditProblem("deleted", 11, 15),))


async def test_forged_checkpoint_covers_nothing(log: AuditLog, store: StoreClient) -> None:
    await grown(log, 15)
    ((_, fields),) = await store.execute("XRANGE", CHECKPOINTS, "-", "+")
    await store.execute("XADD", CHECKPOINTS, "12-0", "checkpoint", fields[1].replace(b"\x0a", b"\x0c", 1))
    await store.execute("XTRIM", RECORDS, "MINID", "13-0")

    report = await log.verify()

    assert not report.is_covered
    assert [problem.kind for problem in report.problems] == ["unsigned"]


async def test_log_is_kept_short_and_stays_covered(store: StoreClient) -> None:
    log = a_log(store, keep=12)
    await grown(log, 34)

    report = await log.verify(from_checkpoint=False)

    assert (report.starts_after, report.last, report.is_intact) == (18, 34, True)
