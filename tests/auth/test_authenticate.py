"""The key cache: how long a key is fresh, stale, absent, and what happens without the store."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from auth import Authenticator, InvalidKey, KeysUnavailable, RequestLimit, StoreKeys, mint
from auth.model import KeyRecord
from auth.testing import MemoryKeys
from gateway.store import StoreClient
from tests.valkey import running_valkey

Headers = list[tuple[bytes, bytes]]


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class HeldKeys(MemoryKeys):
    """Look-ups read at once and answer when released."""

    def __init__(self) -> None:
        super().__init__()
        self.has_read = asyncio.Event()
        self.released = asyncio.Event()

    async def get(self, key_id: str, *, deadline: float | None = None) -> KeyRecord | None:
        record = await super().get(key_id, deadline=deadline)
        self.has_read.set()
        await self.released.wait()
        return record


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def keys() -> MemoryKeys:
    return MemoryKeys()


@pytest.fixture
def authenticator(keys: MemoryKeys, clock: Clock) -> Authenticator:
    return Authenticator(keys, now=clock, fresh_s=1.0, stale_s=600.0)


def minted() -> tuple[KeyRecord, Headers]:
    record, plaintext = mint(
        tenant="acme", service="web", name="", limit=RequestLimit(), created_at_s=1_000.0
    )
    return record, [(b"authorization", b"Bearer " + plaintext.encode())]


async def put(keys: MemoryKeys) -> tuple[KeyRecord, Headers]:
    record, headers = minted()
    await keys.put(record)
    return record, headers


async def test_known_key_gives_its_principal(keys: MemoryKeys, authenticator: Authenticator) -> None:
    record, headers = await put(keys)

    assert await authenticator.authenticate(headers) == record.principal


async def test_wrong_secret_is_invalid(keys: MemoryKeys, authenticator: Authenticator) -> None:
    record, _ = await put(keys)

    with pytest.raises(InvalidKey):
        await authenticator.authenticate([(b"x-api-key", f"eg-{record.key_id}-{'A' * 43}".encode())])


async def test_what_is_no_key_asks_nothing(keys: MemoryKeys, authenticator: Authenticator) -> None:
    with pytest.raises(InvalidKey):
        await authenticator.authenticate([(b"authorization", b"Bearer sk-something")])

    assert keys.gets == 0


async def test_fresh_key_is_not_asked_for_again(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    _, headers = await put(keys)
    await authenticator.authenticate(headers)
    clock.now_s += 0.99
    await authenticator.authenticate(headers)
    assert keys.gets == 1

    clock.now_s += 0.02
    await authenticator.authenticate(headers)
    assert keys.gets == 2


async def test_fresh_key_is_answered_without_suspending(
    keys: MemoryKeys, authenticator: Authenticator
) -> None:
    _, headers = await put(keys)
    await authenticator.authenticate(headers)

    with pytest.raises(StopIteration):
        authenticator.authenticate(headers).send(None)


async def test_revoked_key_is_refused_within_the_fresh_time(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await put(keys)
    await authenticator.authenticate(headers)
    await keys.revoke(record.key_id, at_s=2_000.0)

    clock.now_s += 1.0
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_forgotten_key_is_asked_for_at_once(keys: MemoryKeys, authenticator: Authenticator) -> None:
    record, headers = await put(keys)
    await authenticator.authenticate(headers)
    await keys.revoke(record.key_id, at_s=2_000.0)
    authenticator.forget(record.key_id)

    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_answer_of_before_the_change_is_not_kept(clock: Clock) -> None:
    keys = HeldKeys()
    authenticator = Authenticator(keys, now=clock)
    record, headers = await put(keys)
    early = asyncio.create_task(authenticator.authenticate(headers))
    await keys.has_read.wait()
    await keys.revoke(record.key_id, at_s=2_000.0)
    authenticator.forget(record.key_id)
    keys.released.set()

    assert await early == record.principal  # asked before the change
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_stale_key_works_while_the_store_is_down_but_not_for_ever(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await put(keys)
    await authenticator.authenticate(headers)
    keys.is_down = True
    clock.now_s += 599.0
    assert await authenticator.authenticate(headers) == record.principal

    clock.now_s += 1.0
    with pytest.raises(KeysUnavailable):
        await authenticator.authenticate(headers)


async def test_store_that_is_down_is_asked_once_a_second_for_a_known_key(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    _, headers = await put(keys)
    await authenticator.authenticate(headers)
    keys.is_down = True
    clock.now_s += 5.0
    for _ in range(10):
        await authenticator.authenticate(headers)

    assert keys.gets == 2


async def test_key_that_was_known_revoked_stays_refused_without_the_store(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = await put(keys)
    await keys.revoke(record.key_id, at_s=2_000.0)
    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)
    keys.is_down = True
    clock.now_s += 30.0

    with pytest.raises(InvalidKey):
        await authenticator.authenticate(headers)


async def test_unknown_key_without_the_store_is_unavailable(
    keys: MemoryKeys, authenticator: Authenticator
) -> None:
    _, headers = await put(keys)
    keys.is_down = True

    with pytest.raises(KeysUnavailable):
        await authenticator.authenticate(headers)


async def test_absence_is_remembered_for_the_fresh_time(
    keys: MemoryKeys, authenticator: Authenticator, clock: Clock
) -> None:
    record, headers = minted()
    for _ in range(3):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(headers)
    assert keys.gets == 1

    await keys.put(record)
    clock.now_s += 1.0
    assert await authenticator.authenticate(headers) == record.principal


async def test_guessed_keys_do_not_push_out_known_ones(keys: MemoryKeys, clock: Clock) -> None:
    authenticator = Authenticator(keys, now=clock, capacity=2)
    record, headers = await put(keys)
    await authenticator.authenticate(headers)
    for _ in range(1_100):
        with pytest.raises(InvalidKey):
            await authenticator.authenticate(minted()[1])
    keys.is_down = True
    clock.now_s += 2.0

    assert await authenticator.authenticate(headers) == record.principal
    assert "absent=1000" in repr(authenticator)


async def test_least_recently_used_key_is_forgotten_first(keys: MemoryKeys, clock: Clock) -> None:
    authenticator = Authenticator(keys, now=clock, capacity=2)
    all_headers = [(await put(keys))[1] for _ in range(3)]
    for index in (0, 1, 0, 2):
        await authenticator.authenticate(all_headers[index])
    gets = keys.gets

    await authenticator.authenticate(all_headers[0])
    assert keys.gets == gets
    await authenticator.authenticate(all_headers[1])
    assert keys.gets == gets + 1


async def test_concurrent_requests_share_one_look_up(keys: MemoryKeys, authenticator: Authenticator) -> None:
    record, headers = await put(keys)

    principals = await asyncio.gather(*(authenticator.authenticate(headers) for _ in range(100)))

    assert principals == [record.principal] * 100
    assert keys.gets == 1


async def test_first_caller_leaving_does_not_fail_the_others(clock: Clock) -> None:
    keys = HeldKeys()
    authenticator = Authenticator(keys, now=clock)
    record, headers = await put(keys)
    first, second = (asyncio.create_task(authenticator.authenticate(headers)) for _ in range(2))
    await keys.has_read.wait()
    first.cancel()
    keys.released.set()

    assert await second == record.principal
    assert keys.gets == 1


async def test_other_tenants_key_is_another_principal(keys: MemoryKeys, authenticator: Authenticator) -> None:
    record, headers = minted()
    await keys.put(replace(record, tenant="globex"))

    assert (await authenticator.authenticate(headers)).tenant == "globex"


async def test_hung_store_is_unavailable_by_the_deadline() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
        authenticator = Authenticator(StoreKeys(store))
        _, headers = minted()
        valkey.hang()
        started = time.monotonic()

        with pytest.raises(KeysUnavailable):
            await authenticator.authenticate(headers, deadline=started + 0.05)
        assert time.monotonic() - started < 0.5
