"""What is made again after the store has lost it, and what is left as it is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from auth import (
    UNLIMITED,
    Budget,
    KeyRecord,
    KeyRef,
    KeysUnavailable,
    Limits,
    OldSecret,
    Policy,
    Ref,
    ServiceRef,
    StoreDirectory,
    TenantRef,
    disabled,
    enabled,
    mint,
    reapply_after_failovers,
    rotate,
)
from auth.identity.failover import KeptWrites, is_lower, is_narrower, tightened
from gateway.store.client import StoreClient
from tests.auth.asking import Clock
from tests.valkey import eventually, running_valkey

RECORDS = "eg:{k}:records"


def a_key() -> KeyRecord:
    record, _ = mint(tenant="acme", service="web", name="", created_at_s=1.0)
    return record


KEY = a_key()
DISABLED = replace(KEY, disabled_at_s=5.0)
ROTATED = replace(KEY, secret_sha256=b"n" * 32, old_secret=OldSecret(KEY.secret_sha256, 60.0))
LOWER = replace(KEY, limits=Limits(requests_per_s=10.0))
RAISED = replace(KEY, limits=UNLIMITED)
NARROWER = replace(KEY, policy=Policy(models=("m1",)))
ENDING = replace(KEY, expires_at_s=9.0)
RENAMED = replace(KEY, name="another")


# --- the decision


@pytest.mark.parametrize("ours", [DISABLED, ROTATED, LOWER, NARROWER, ENDING])
def test_what_takes_away_is_made_again(ours: KeyRecord) -> None:
    assert tightened(ours, [KEY], KEY) == ours


@pytest.mark.parametrize("ours", [RAISED, RENAMED])
def test_what_takes_nothing_away_is_not(ours: KeyRecord) -> None:
    assert tightened(ours, [KEY], KEY) == KEY


@pytest.mark.parametrize("ours", [KEY, DISABLED, ROTATED, LOWER, NARROWER, ENDING])
def test_what_is_still_there_is_left_alone(ours: KeyRecord) -> None:
    assert tightened(ours, [KEY], ours) == ours


def test_what_others_have_set_since_is_theirs() -> None:
    theirs = replace(KEY, limits=Limits(requests_per_s=50.0), secret_sha256=b"t" * 32, name="theirs")

    assert tightened(replace(LOWER, secret_sha256=b"o" * 32), [KEY], theirs) == theirs


def test_only_what_was_lost_is_made_again() -> None:
    ours = replace(DISABLED, name="ours", limits=LOWER.limits)
    theirs = replace(KEY, metadata={"team": "theirs"})

    assert tightened(ours, [KEY], theirs) == replace(theirs, disabled_at_s=5.0, limits=LOWER.limits)


def test_half_of_two_changes_is_completed() -> None:
    middle = replace(KEY, limits=Limits(requests_per_s=50.0))

    assert tightened(LOWER, [KEY, middle], middle) == LOWER


def test_what_was_taken_back_is_not_made_again() -> None:
    assert tightened(KEY, [KEY, DISABLED], KEY) == KEY


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Limits(concurrent=1), UNLIMITED, True),
        (UNLIMITED, Limits(concurrent=1), False),
        (Limits(requests_per_s=20, burst=1), Limits(requests_per_s=10, burst=5), True),
        (Limits(tokens_per_min=5), Limits(tokens_per_min=5), False),
        (Limits(budget=Budget(1, "tokens", "day")), Limits(budget=Budget(2, "tokens", "day")), True),
        (Limits(budget=Budget(3, "tokens", "day")), Limits(budget=Budget(2, "tokens", "day")), False),
        (Limits(budget=Budget(3, "money", "day")), Limits(budget=Budget(2, "tokens", "day")), True),
    ],
)
def test_limits_are_lower_where_any_is(one: Limits, other: Limits, expected: bool) -> None:
    assert is_lower(one, other) is expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (Policy(models=("m1",)), Policy(), True),
        (Policy(), Policy(models=("m1",)), False),
        (Policy(models=("m1",)), Policy(models=("m1", "m2")), True),
        (Policy(models=("m*",)), Policy(models=("m1", "m2")), False),
        (Policy(scopes=frozenset(("chat",))), Policy(scopes=frozenset(("chat", "models"))), True),
        (Policy(shared_pool=False), Policy(shared_pool=True), True),
        (Policy(shared_pool=True), Policy(shared_pool=False), False),
    ],
)
def test_policy_is_narrower_where_it_allows_less(one: Policy, other: Policy, expected: bool) -> None:
    assert is_narrower(one, other) is expected


def test_changes_are_kept_for_ten_minutes_and_bounded() -> None:
    clock = Clock()
    kept = KeptWrites(now=clock)
    for number in range(1_100):
        kept.add(KeyRef(str(number)), KEY, DISABLED)
    assert len(kept.recent()) == 1_000

    clock.now_s += 599.0
    kept.add(KeyRef(KEY.key_id), KEY, DISABLED)
    clock.now_s += 2.0
    assert kept.recent() == [(KeyRef(KEY.key_id), (KEY, DISABLED))]


# --- on a real store that forgets


class Forgetful:
    """A directory on a store whose records can be put back to what they were, as after a failover."""

    def __init__(self, store: StoreClient) -> None:
        self._store = store
        self.directory = StoreDirectory(store)

    async def snapshot(self) -> list[bytes]:
        return list(await self._store.execute("HGETALL", RECORDS))

    async def put_back(self, records: list[bytes]) -> None:
        await self._store.execute("DEL", RECORDS)
        await self._store.execute("HSET", RECORDS, *records)

    async def key(self) -> KeyRecord:
        found = await self.directory.get(KeyRef(KEY.key_id))
        assert found is not None
        return found


@pytest.fixture
async def forgetful() -> AsyncIterator[Forgetful]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:
        yield Forgetful(store)


async def test_lost_disable_is_made_again(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    before = await forgetful.snapshot()
    await directory.change(KeyRef(KEY.key_id), lambda it: disabled(it, at_s=5.0))
    await forgetful.put_back(before)

    assert await directory.reapply() == [KeyRef(KEY.key_id)]
    assert await forgetful.key() == DISABLED
    assert await directory.reapply() == []


async def test_lost_rotation_is_made_again(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    before = await forgetful.snapshot()
    written, _ = await rotate(directory, KEY.key_id, at_s=0.0, grace_s=60.0)
    await forgetful.put_back(before)
    await directory.reapply()

    assert await forgetful.key() == written.record


async def test_lost_deletion_is_made_again(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    before = await forgetful.snapshot()
    await directory.delete(KeyRef(KEY.key_id))
    await directory.delete(ServiceRef("acme", "web"))
    await directory.delete(TenantRef("acme"))
    await forgetful.put_back(before)

    refs: list[Ref[Any]] = [KeyRef(KEY.key_id), ServiceRef("acme", "web"), TenantRef("acme")]
    assert await directory.reapply() == refs
    assert await directory.find(KEY.key_id) is None


async def test_key_that_was_enabled_again_stays_enabled(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    before = await forgetful.snapshot()
    await directory.change(KeyRef(KEY.key_id), lambda it: disabled(it, at_s=5.0))
    await directory.change(KeyRef(KEY.key_id), enabled)
    await forgetful.put_back(before)

    assert await directory.reapply() == []
    assert await forgetful.key() == KEY


async def test_key_that_was_deleted_and_added_again_stays(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    await directory.delete(KeyRef(KEY.key_id))
    await directory.add(KEY)

    assert await directory.reapply() == []
    assert await forgetful.key() == KEY


async def test_what_another_process_changed_is_not_ours_to_make_again(forgetful: Forgetful) -> None:
    directory = forgetful.directory
    await directory.add(KEY)
    before = await forgetful.snapshot()
    await directory.change(KeyRef(KEY.key_id), lambda it: replace(it, limits=LOWER.limits))
    await forgetful.put_back(before)
    other = StoreDirectory(forgetful._store)
    await other.change(KeyRef(KEY.key_id), lambda it: replace(it, limits=Limits(requests_per_s=20.0)))

    assert await directory.reapply() == []


# --- noticing


class Reapplied:
    def __init__(self) -> None:
        self.is_down = False
        self.asked = 0

    async def reapply(self) -> Sequence[Ref[Any]]:
        self.asked += 1
        if self.is_down:
            raise KeysUnavailable("down")
        return [TenantRef("acme")]


class Servers:
    """Who answers, by and by; `asked` counts how often that was looked up."""

    def __init__(self) -> None:
        self.present: str | None = "one"
        self.asked = 0

    def __call__(self) -> str | None:
        self.asked += 1
        return self.present

    async def become(self, server: str | None) -> None:
        """Returns when it must have been noticed, and acted on."""
        self.present, asked = server, self.asked
        await eventually(lambda: self.asked > asked + 2)


async def test_another_server_is_made_as_strict_once() -> None:
    reapplied, servers = Reapplied(), Servers()
    told: list[Ref[Any]] = []

    async def tell(refs: Sequence[Ref[Any]]) -> None:
        told.extend(refs)

    watching = asyncio.create_task(
        reapply_after_failovers(reapplied, server_id=servers, on_reapplied=tell, every_s=0.001)
    )
    try:
        await servers.become("one")
        await servers.become(None)
        assert reapplied.asked == 0
        reapplied.is_down = True
        await servers.become("two")
        assert (reapplied.asked > 1, told) == (True, [])  # again and again, until the store takes it
        reapplied.is_down = False
        await eventually(lambda: bool(told))
        await servers.become("two")
        assert told == [TenantRef("acme")]
    finally:
        watching.cancel()
        await asyncio.wait([watching])
