"""What every `Directory` promises of its records, for the real one over Valkey and for the fake."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from auth import (
    AlreadyThere,
    Directory,
    KeyRef,
    KeysUnavailable,
    Limits,
    Lineage,
    NoSuchRecord,
    Page,
    Policy,
    Service,
    ServiceRef,
    StillInUse,
    Tenant,
    TenantRef,
    disabled,
    enabled,
)
from tests.contracts.directories import DIRECTORIES, Subject, a_key


@pytest.fixture(params=DIRECTORIES)
async def subject(request: pytest.FixtureRequest) -> AsyncIterator[Subject]:
    async with request.param() as subject:
        yield subject


@pytest.fixture
def directory(subject: Subject) -> Directory:
    return subject.directory


# --- one record


async def test_key_is_found_with_its_service_and_tenant(directory: Directory) -> None:
    tenant = Tenant("acme", 1.0, policy=Policy(models=("m*",), scopes=frozenset(("chat",))))
    service = Service("acme", "web", 2.0, limits=Limits(requests_per_min=60))
    key = a_key()
    for record in (tenant, service, key):
        await directory.add(record)

    assert await directory.find(key.key_id) == Lineage(key, service, tenant)


async def test_key_brings_its_service_and_tenant_along(directory: Directory) -> None:
    key = a_key(created_at_s=7.0)
    await directory.add(key)

    assert await directory.get(ServiceRef("acme", "web")) == Service("acme", "web", 7.0)
    assert await directory.get(TenantRef("acme")) == Tenant("acme", 7.0)


async def test_unknown_record_is_none(directory: Directory) -> None:
    assert await directory.find("abcdefghijkl") is None
    assert await directory.get(KeyRef("abcdefghijkl")) is None
    assert await directory.get(ServiceRef("acme", "web")) is None
    assert await directory.get(TenantRef("acme")) is None


async def test_record_that_is_there_is_not_added_again(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)

    with pytest.raises(AlreadyThere):
        await directory.add(replace(key, name="another"))
    with pytest.raises(AlreadyThere):
        await directory.add(Tenant("acme", 5.0))
    assert await directory.get(KeyRef(key.key_id)) == key


async def test_record_that_may_not_be_is_refused(directory: Directory) -> None:
    with pytest.raises(ValueError, match="tenant"):
        await directory.add(Tenant("a b", 1.0))
    await directory.add(Tenant("acme", 1.0))
    with pytest.raises(ValueError, match="metadata"):
        await directory.change(
            TenantRef("acme"), lambda it: replace(it, metadata={str(n): "" for n in range(17)})
        )


async def test_change_is_what_is_read_afterwards(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)

    written = await directory.change(KeyRef(key.key_id), lambda it: replace(it, name="another"))

    assert written.record == replace(key, name="another") == await directory.get(KeyRef(key.key_id))
    assert written.is_replicated  # there is no replica to wait for


async def test_change_of_a_tenant_is_found_with_its_keys(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)
    await directory.change(TenantRef("acme"), lambda it: disabled(it, at_s=9.0))

    lineage = await directory.find(key.key_id)
    assert lineage is not None
    assert lineage.tenant.disabled_at_s == 9.0


async def test_change_of_what_is_not_there_is_refused(directory: Directory) -> None:
    with pytest.raises(NoSuchRecord, match="acme"):
        await directory.change(TenantRef("acme"), enabled)


async def test_record_cannot_become_another(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)

    with pytest.raises(ValueError, match="another"):
        await directory.change(KeyRef(key.key_id), lambda it: replace(it, tenant="globex"))
    assert await directory.get(KeyRef(key.key_id)) == key


async def test_changes_at_the_same_time_are_all_kept(directory: Directory) -> None:
    await directory.add(Tenant("acme", 1.0))

    async def write(name: str) -> None:
        await directory.change(
            TenantRef("acme"), lambda it: replace(it, metadata={**it.metadata, name: "yes"})
        )

    await asyncio.gather(*(write(str(number)) for number in range(8)))

    tenant = await directory.get(TenantRef("acme"))
    assert tenant is not None
    assert set(tenant.metadata) == set("01234567")


async def test_disabling_again_keeps_the_first_moment(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)
    for moment in (5.0, 9.0):
        await directory.change(KeyRef(key.key_id), partial(disabled, at_s=moment))

    assert await directory.get(KeyRef(key.key_id)) == replace(key, disabled_at_s=5.0)


async def test_update_does_not_enable_what_was_disabled_meanwhile(directory: Directory) -> None:
    """An update that read the key before it was disabled is made on the disabled one."""
    key = a_key()
    await directory.add(key)

    await asyncio.gather(
        directory.change(KeyRef(key.key_id), lambda it: replace(it, name="another")),
        directory.change(KeyRef(key.key_id), lambda it: disabled(it, at_s=5.0)),
    )

    assert await directory.get(KeyRef(key.key_id)) == replace(key, name="another", disabled_at_s=5.0)


# --- deleting


async def test_deleted_key_is_gone(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)

    assert (await directory.delete(KeyRef(key.key_id))).record == key

    assert await directory.find(key.key_id) is None
    assert await directory.keys() == Page((), None)
    assert await directory.keys(tenant="acme", service="web") == Page((), None)
    with pytest.raises(NoSuchRecord):
        await directory.delete(KeyRef(key.key_id))


async def test_what_others_belong_to_is_not_deleted(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)

    with pytest.raises(StillInUse, match="keys"):
        await directory.delete(ServiceRef("acme", "web"))
    with pytest.raises(StillInUse, match="services"):
        await directory.delete(TenantRef("acme"))

    await directory.delete(KeyRef(key.key_id))
    await directory.delete(ServiceRef("acme", "web"))
    await directory.delete(TenantRef("acme"))
    assert await directory.tenants() == Page((), None)


@pytest.mark.parametrize("other", ["acme0", "acme-2", "acme.", "acm", "acmea"])
async def test_tenant_with_a_similar_name_is_another(directory: Directory, other: str) -> None:
    await directory.add(Service(other, "web", 1.0))
    await directory.add(Tenant("acme", 1.0))

    assert await directory.services(tenant="acme") == Page((), None)
    await directory.delete(TenantRef("acme"))


# --- last use


async def test_last_use_is_shown_with_the_key(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)
    await directory.note_use({key.key_id: 5_000.4, "abcdefghijkl": 5_000.0})

    used = replace(key, last_used_at_s=5_000.0)
    assert await directory.get(KeyRef(key.key_id)) == used
    assert await directory.keys() == Page((used,), None)
    assert await directory.get(KeyRef("abcdefghijkl")) is None


@pytest.mark.parametrize(("later", "shown"), [(5_059.0, 5_000.0), (4_000.0, 5_000.0), (5_060.0, 5_060.0)])
async def test_use_within_the_minute_is_not_written_again(
    directory: Directory, later: float, shown: float
) -> None:
    key = a_key()
    await directory.add(key)
    for moment in (5_000.0, later):
        await directory.note_use({key.key_id: moment})

    found = await directory.get(KeyRef(key.key_id))
    assert found is not None
    assert found.last_used_at_s == shown


async def test_change_does_not_touch_the_last_use(directory: Directory) -> None:
    key = a_key()
    await directory.add(key)
    await directory.note_use({key.key_id: 5_000.0})
    await directory.change(KeyRef(key.key_id), lambda it: replace(it, last_used_at_s=None, name="another"))

    assert await directory.get(KeyRef(key.key_id)) == replace(key, name="another", last_used_at_s=5_000.0)


# --- without the store


async def test_store_that_is_down_is_unavailable_for_every_call(subject: Subject) -> None:
    directory, key = subject.directory, a_key()
    await subject.take_down()
    calls: list[Callable[[], Awaitable[object]]] = [
        lambda: directory.find(key.key_id),
        lambda: directory.get(KeyRef(key.key_id)),
        lambda: directory.add(key),
        lambda: directory.change(KeyRef(key.key_id), enabled),
        lambda: directory.delete(KeyRef(key.key_id)),
        directory.tenants,
        directory.services,
        directory.keys,
        lambda: directory.note_use({key.key_id: 1.0}),
    ]

    for call in calls:
        with pytest.raises(KeysUnavailable):
            await call()
