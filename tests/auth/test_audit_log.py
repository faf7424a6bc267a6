"""The audit log: how it grows, who may continue it, and what happens without the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth import AuditLog, AuditUnavailable
from gateway.store.client import StoreClient
from tests.auth.auditing import (
    a_log,
    a_record,
    fields_of,
    grown,
    intact,
)
from tests.valkey import Valkey, eventually, running_valkey


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
