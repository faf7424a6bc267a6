"""What every `KeyStore` promises, for the real one over Valkey and for the fake."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest

from auth import KeyRecord, KeyStore, KeysUnavailable, RequestLimit, StoreKeys, UnreadableRecord, mint
from auth.testing import MemoryKeys
from gateway.store import StoreClient
from tests.valkey import eventually, running_valkey


@dataclass(frozen=True, slots=True)
class Subject:
    """A key store, and how to take it down."""

    keys: KeyStore
    take_down: Callable[[], Awaitable[None]]


@asynccontextmanager
async def over_valkey() -> AsyncIterator[Subject]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:

        async def take_down() -> None:
            await valkey.kill()
            await eventually(lambda: not store.is_up)

        yield Subject(StoreKeys(store), take_down)


@asynccontextmanager
async def in_memory() -> AsyncIterator[Subject]:
    keys = MemoryKeys()

    async def take_down() -> None:
        keys.is_down = True

    yield Subject(keys, take_down)


@pytest.fixture(params=[over_valkey, in_memory])
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with request.param() as subject:
        yield subject


@pytest.fixture
def keys(subject: Subject) -> KeyStore:
    return subject.keys


def a_record(*, created_at_s: float = 1_000.0) -> KeyRecord:
    limit = RequestLimit(rate_per_s=0.1, burst=3)
    record, _ = mint(tenant="acme", service="web", name="Zoë’s key", limit=limit, created_at_s=created_at_s)
    return record


async def test_key_that_was_put_is_found(keys: KeyStore) -> None:
    record = a_record()
    await keys.put(record)

    assert await keys.get(record.key_id) == record


async def test_unknown_key_is_none(keys: KeyStore) -> None:
    assert await keys.get("abcdefghijkl") is None
    assert await keys.revoke("abcdefghijkl", at_s=1.0) is None


async def test_put_replaces_the_record(keys: KeyStore) -> None:
    record = a_record()
    await keys.put(record)
    renamed = replace(record, name="another")
    await keys.put(renamed)

    assert await keys.get(record.key_id) == renamed
    assert await keys.list() == [renamed]


async def test_list_is_newest_first_and_holds_revoked_keys(keys: KeyStore) -> None:
    records = [a_record(created_at_s=moment) for moment in (2.5, 1.0, 3.25)]
    for record in records:
        await keys.put(record)
    revoked = await keys.revoke(records[0].key_id, at_s=9.0)

    assert await keys.list() == [records[2], revoked, records[1]]


async def test_revoking_again_keeps_the_first_moment(keys: KeyStore) -> None:
    record = a_record()
    await keys.put(record)

    first = await keys.revoke(record.key_id, at_s=1_234.5678)
    second = await keys.revoke(record.key_id, at_s=9_999.0)

    assert first == second == await keys.get(record.key_id) == replace(record, disabled_at_s=1_234.5678)


async def test_no_later_write_brings_a_revoked_key_back(keys: KeyStore) -> None:
    record = a_record()
    await keys.put(record)
    await keys.revoke(record.key_id, at_s=5.0)
    await keys.put(record)

    assert await keys.get(record.key_id) == replace(record, disabled_at_s=5.0)


async def test_record_that_is_put_revoked_is_revoked(keys: KeyStore) -> None:
    record = replace(a_record(), disabled_at_s=7.0)
    await keys.put(record)

    assert await keys.get(record.key_id) == record


async def test_store_that_is_down_is_unavailable_for_every_call(subject: Subject) -> None:
    record = a_record()
    await subject.take_down()

    with pytest.raises(KeysUnavailable):
        await subject.keys.get(record.key_id)
    with pytest.raises(KeysUnavailable):
        await subject.keys.put(record)
    with pytest.raises(KeysUnavailable):
        await subject.keys.list()
    with pytest.raises(KeysUnavailable):
        await subject.keys.revoke(record.key_id, at_s=1.0)


@pytest.mark.parametrize("stored", [b"\x92\x02\xa3new", b"\x99\x02", b"rubbish", b""])
async def test_record_of_an_unknown_format_is_refused(stored: bytes) -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        await store.execute("HSET", "eg:{k}:key:abcdefghijkl", "record", stored)

        with pytest.raises(UnreadableRecord):
            await StoreKeys(store).get("abcdefghijkl")


async def test_newer_format_is_named() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        record = a_record()
        await StoreKeys(store).put(record)
        name = f"eg:{{k}}:key:{record.key_id}"
        stored: bytes = await store.execute("HGET", name, "record")
        await store.execute("HSET", name, "record", stored[:1] + b"\x02" + stored[2:])

        with pytest.raises(UnreadableRecord, match="format 2"):
            await StoreKeys(store).get(record.key_id)
