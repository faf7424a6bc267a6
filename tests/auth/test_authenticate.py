"""The key cache: how long a key is fresh, stale, absent, and what happens without the store."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from auth import Authenticator, InvalidKey, KeysUnavailable, Lineage, StoreDirectory
from auth.testing import MemoryDirectory
from gateway.store.client import StoreClient
from tests.auth.asking import Clock, added, disable, minted, whom
from tests.valkey import running_valkey


class HeldDirectory(MemoryDirectory):
    """Look-ups read at once and answer when released."""

    def __init__(self) -> None:
        super().__init__()
        self.has_read = asyncio.Event()
        self.released = asyncio.Event()

    async def find(self, key_id: str, *, deadline: float | None = None) -> Lineage | None:
        lineage = await super().find(key_id, deadline=deadline)
        self.has_read.set()
        await self.released.wait()
        return lineage


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def directory() -> MemoryDirectory:
    return MemoryDirectory()


@pytest.fixture
def authenticator(directory: MemoryDirectory, clock: Clock) -> Authenticator:
    return Authenticator(directory, now=clock, fresh_s=1.0, stale_s=600.0)


async def test_known_key_gives_its_principal(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, headers = await added(directory)

    assert await whom(authenticator, headers) == record.key_id


async def test_wrong_secret_is_invalid(directory: MemoryDirectory, authenticator: Authenticator) -> None:
    record, _ = await added(directory)

    with pytest.raises(InvalidKey):
        await authenticator.authenticate([(b"x-api-key", f"eg-{record.key_id}-{'A' * 43}".encode())])


async def test_what_is_no_key_asks_nothing(directory: MemoryDirectory, authenticator: Authenticator) -> None:
    with pytest.raises(InvalidKey):
        await authenticator.authenticate([(b"authorization", b"Bearer sk-something")])

    assert directory.finds == 0


async def test_fresh_key_is_not_asked_for_again(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    _, headers = await added(directory)
    await authenticator.authenticate(headers)
    clock.now_s += 0.99
    await authenticator.authenticate(headers)
    assert directory.finds == 1

    clock.now_s += 0.02
    await authenticator.authenticate(headers)
    assert directory.finds == 2


async def test_fresh_key_is_answered_without_suspending(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    _, headers = await added(directory)
    await authenticator.authenticate(headers)

    with pytest.raises(StopIteration):
        authenticator.authenticate(headers).send(None)


async def test_disabled_key_is_refused_within_the_fresh_time(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await added(directory)
    await authenticator.authenticate(headers)
    await disable(directory, record)

    clock.now_s += 1.0
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_forgotten_key_is_asked_for_at_once(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, headers = await added(directory)
    await authenticator.authenticate(headers)
    await disable(directory, record)
    authenticator.forget(record.key_id)

    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_answer_of_before_the_change_is_not_kept(clock: Clock) -> None:
    directory = HeldDirectory()
    authenticator = Authenticator(directory, now=clock)
    record, headers = await added(directory)
    early = asyncio.create_task(authenticator.authenticate(headers))
    await directory.has_read.wait()
    await disable(directory, record)
    authenticator.forget(record.key_id)
    directory.released.set()

    assert (await early).key_id == record.key_id  # asked before the change
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_stale_key_works_while_the_store_is_down_but_not_for_ever(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await added(directory)
    await authenticator.authenticate(headers)
    directory.is_down = True
    clock.now_s += 599.0
    assert await whom(authenticator, headers) == record.key_id

    clock.now_s += 1.0
    with pytest.raises(KeysUnavailable):
        await authenticator.authenticate(headers)


async def test_store_that_is_down_is_asked_once_a_second_for_a_known_key(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    _, headers = await added(directory)
    await authenticator.authenticate(headers)
    directory.is_down = True
    clock.now_s += 5.0
    for _ in range(10):
        await authenticator.authenticate(headers)

    assert directory.finds == 2


async def test_key_that_was_known_disabled_stays_refused_without_the_store(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await added(directory)
    await disable(directory, record)
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)
    directory.is_down = True
    clock.now_s += 30.0

    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_unknown_key_without_the_store_is_unavailable(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    _, headers = await added(directory)
    directory.is_down = True

    with pytest.raises(KeysUnavailable):
        await authenticator.authenticate(headers)


async def test_absence_is_remembered_for_the_fresh_time(
    directory: MemoryDirectory, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = minted()
    for _ in range(3):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(headers)
    assert directory.finds == 1

    await directory.add(record)
    clock.now_s += 1.0
    assert await whom(authenticator, headers) == record.key_id


async def test_guessed_keys_do_not_push_out_known_ones(directory: MemoryDirectory, clock: Clock) -> None:
    authenticator = Authenticator(directory, now=clock, capacity=2)
    record, headers = await added(directory)
    await authenticator.authenticate(headers)
    for _ in range(1_100):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(minted()[1])
    directory.is_down = True
    clock.now_s += 2.0

    assert await whom(authenticator, headers) == record.key_id
    assert "absent=1000" in repr(authenticator)


async def test_least_recently_used_key_is_forgotten_first(directory: MemoryDirectory, clock: Clock) -> None:
    authenticator = Authenticator(directory, now=clock, capacity=2)
    all_headers = [(await added(directory))[1] for _ in range(3)]
    for index in (0, 1, 0, 2):
        await authenticator.authenticate(all_headers[index])
    finds = directory.finds

    await authenticator.authenticate(all_headers[0])
    assert directory.finds == finds
    await authenticator.authenticate(all_headers[1])
    assert directory.finds == finds + 1


async def test_concurrent_requests_share_one_look_up(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, headers = await added(directory)

    principals = await asyncio.gather(*(authenticator.authenticate(headers) for _ in range(100)))

    assert {principal.key_id for principal in principals} == {record.key_id}
    assert directory.finds == 1


async def test_first_caller_leaving_does_not_fail_the_others(clock: Clock) -> None:
    directory = HeldDirectory()
    authenticator = Authenticator(directory, now=clock)
    record, headers = await added(directory)
    first, second = (asyncio.create_task(authenticator.authenticate(headers)) for _ in range(2))
    await directory.has_read.wait()
    first.cancel()
    directory.released.set()

    assert (await second).key_id == record.key_id
    assert directory.finds == 1


async def test_other_tenants_key_is_another_principal(
    directory: MemoryDirectory, authenticator: Authenticator
) -> None:
    record, headers = minted()
    await directory.add(replace(record, tenant="globex"))

    assert (await authenticator.authenticate(headers)).tenant == "globex"


async def test_hung_store_is_unavailable_by_the_deadline() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
        authenticator = Authenticator(StoreDirectory(store))
        _, headers = minted()
        valkey.hang()
        started = time.monotonic()

        with pytest.raises(KeysUnavailable):
            await authenticator.authenticate(headers, deadline=started + 0.05)
        assert time.monotonic() - started < 0.5
