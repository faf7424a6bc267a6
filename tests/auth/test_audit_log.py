"""The audit log: how it grows, and what shows when somebody with access to the store meddles with it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth import AuditLog, AuditProblem, AuditRecord, AuditReport, AuditUnavailable
from gateway.store import StoreClient
from tests.valkey import Valkey, eventually, running_valkey

KEY = bytes(range(32))
RECORDS, END, CHECKPOINTS = "eg:{audit}:records", "eg:{audit}:end", "eg:{audit}:checkpoints"


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


def a_log(store: StoreClient, *, key: bytes = KEY, keep: int = 1_000) -> AuditLog:
    """One as another process would have it, too."""
    return AuditLog(store, key=key, checkpoint_every=10, keep=keep)


def a_record(number: int) -> AuditRecord:
    return AuditRecord(
        at_s=1_000.0 + number,
        actor="ops",
        role="admin",
        action="key.disable",
        target=f"key {number}",
        outcome="ok",
        source_ip="192.0.2.7",
        before={"name": "Zoë’s"},
        after={"name": "Zoë’s", "disabled_at_s": 1_000.5},
    )


async def grown(log: AuditLog, count: int) -> None:
    for number in range(1, count + 1):
        await log.append(a_record(number))


async def fields_of(store: StoreClient, number: int) -> dict[bytes, bytes]:
    ((_, fields),) = await store.execute("XRANGE", RECORDS, f"{number}-0", f"{number}-0")
    return dict(zip(fields[::2], fields[1::2], strict=True))


async def rewritten(store: StoreClient, number: int, changes: dict[bytes, bytes]) -> None:
    """Put other content in the place of a record, which a stream does not make easy."""
    replies = await store.execute("XRANGE", RECORDS, "-", "+")
    await store.execute("DEL", RECORDS)
    for entry_id, fields in replies:
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        if entry_id == b"%d-0" % number:
            values |= changes
        await store.execute("XADD", RECORDS, entry_id, *(part for pair in values.items() for part in pair))


def intact(last: int, *, since: int = 0) -> AuditReport:
    return AuditReport(
        since=since, last=last, checked=last - since, starts_after=0, is_covered=True, problems=()
    )


# --- growing


async def test_record_is_read_as_it_was_written(log: AuditLog) -> None:
    await grown(log, 3)

    entries = await log.read(after=1, limit=1)

    assert [(entry.number, entry.record) for entry in entries] == [(2, a_record(2))]
    assert await log.length() == 3


async def test_empty_log_is_intact(log: AuditLog) -> None:
    assert await log.verify() == intact(0)
    assert await log.read() == []
    assert await log.length() == 0


async def test_untouched_log_is_intact(log: AuditLog) -> None:
    await grown(log, 25)

    assert await log.verify(from_checkpoint=False) == intact(25)
    assert await log.verify() == intact(25, since=20)


async def test_two_writers_racing_leave_one_whole_chain(store: StoreClient) -> None:
    logs = [a_log(store) for _ in range(2)]
    numbers = await asyncio.gather(
        *(logs[number % 2].append(a_record(number)) for number in range(40)),
    )

    assert sorted(entry.number for entry in numbers) == list(range(1, 41))
    assert await a_log(store).verify(from_checkpoint=False) == intact(40)


async def test_log_goes_on_after_a_restart(store: StoreClient) -> None:
    await grown(a_log(store), 3)
    await a_log(store).append(a_record(4))

    assert await a_log(store).verify() == intact(4)


async def test_key_that_slips_into_a_record_is_cut_out(log: AuditLog, store: StoreClient) -> None:
    secret = "A" * 43
    entry = await log.append(
        replace(a_record(1), target=f"ega-{secret}", after={"name": f"my eg-abcdefghijkl-{secret}!"})
    )

    assert entry.record.target == "ega-[removed]"
    assert entry.record.after == {"name": "my eg-abcdefghijkl-[removed]!"}
    assert secret.encode() not in b"".join((await fields_of(store, 1)).values())
    assert (await log.verify()).is_intact


# --- meddling


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


# --- keys and outages


async def test_log_of_another_key_is_neither_believed_nor_continued(
    log: AuditLog, store: StoreClient
) -> None:
    await grown(log, 3)
    other = a_log(store, key=b"x" * 32)

    assert not (await other.verify()).is_intact
    with pytest.raises(AuditUnavailable, match="audit key"):
        await other.append(a_record(4))


def test_short_key_is_refused(store: StoreClient) -> None:
    with pytest.raises(ValueError, match="31 bytes"):
        a_log(store, key=b"x" * 31)


async def test_store_that_is_down_is_unavailable(log: AuditLog, valkey: Valkey, store: StoreClient) -> None:
    await valkey.kill()
    await eventually(lambda: not store.is_up)

    with pytest.raises(AuditUnavailable):
        await log.append(a_record(1))
    with pytest.raises(AuditUnavailable):
        await log.read()
    with pytest.raises(AuditUnavailable):
        await log.verify()
