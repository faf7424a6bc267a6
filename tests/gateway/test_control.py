"""Control changes reach whoever follows, in order, over outages of the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from gateway.host.control import ControlRecord, KeyChanged, follow, publish
from gateway.store.client import StoreClient
from tests.valkey import Valkey, eventually, running_valkey


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as valkey:
        yield valkey


@pytest.fixture
async def store(valkey: Valkey) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(valkey.url, deadline_s=2.0) as store:
        yield store


@asynccontextmanager
async def following(valkey: Valkey) -> AsyncIterator[list[str]]:
    """Ids of the keys that a follower hears of; it follows when the block begins."""
    heard: list[str] = []

    async def on_change(change_id: str, record: ControlRecord) -> None:
        heard.append(record.key_id)

    async with StoreClient.open(valkey.url, silence_s=10.0) as reader, StoreClient.open(valkey.url) as probe:
        task = asyncio.create_task(follow(reader, on_change))
        while b"cmd=xread" not in bytes(await probe.execute("CLIENT", "LIST")):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
        yield heard
        task.cancel()
        await asyncio.wait([task])


@pytest.fixture
async def seen(valkey: Valkey) -> AsyncIterator[list[str]]:
    async with following(valkey) as heard:
        yield heard


async def test_changes_are_heard_in_order(store: StoreClient, seen: list[str]) -> None:
    for number in range(20):
        await publish(store, KeyChanged(str(number)))
    await eventually(lambda: len(seen) == 20)
    assert seen == [str(number) for number in range(20)]


async def test_what_was_before_is_not_repeated(store: StoreClient, valkey: Valkey) -> None:
    await publish(store, KeyChanged("old"))
    async with following(valkey) as heard:
        await publish(store, KeyChanged("new"))
        await eventually(lambda: bool(heard))
    assert heard == ["new"]


async def test_an_outage_is_waited_out_and_nothing_is_missed(
    store: StoreClient, valkey: Valkey, seen: list[str]
) -> None:
    await publish(store, KeyChanged("before"))
    await eventually(lambda: seen == ["before"])
    await valkey.stop()
    await valkey.start()
    await eventually(lambda: store.is_up)
    await publish(store, KeyChanged("after"))
    await eventually(lambda: seen == ["before", "after"])


async def test_a_record_of_an_unknown_kind_is_passed_over(store: StoreClient, seen: list[str]) -> None:
    await store.execute("XADD", "eg:{k}:control", "*", "v", "1", "record", b'{"type":"of-tomorrow"}')
    await store.execute("XADD", "eg:{k}:control", "*", "v", "2", "record", b"\x00")
    await store.execute("XADD", "eg:{k}:control", "*", "something", "else")
    await publish(store, KeyChanged("known"))
    await eventually(lambda: seen == ["known"])


async def test_a_change_that_the_store_does_not_take_is_an_error(store: StoreClient, valkey: Valkey) -> None:
    await valkey.kill()
    with pytest.raises(ConnectionError):
        await publish(store, KeyChanged("x"))
