"""What every `Directory` promises of its lists: their order, their pages, and what is in them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from auth import (
    Directory,
    KeyRef,
    Page,
    Service,
    disabled,
)
from tests.contracts.directories import DIRECTORIES, a_key, some_keys


@pytest.fixture(params=DIRECTORIES)
async def directory(request: pytest.FixtureRequest) -> AsyncIterator[Directory]:
    async with request.param() as subject:
        yield subject.directory


async def test_keys_are_listed_newest_first(directory: Directory) -> None:
    old, middle, new = await some_keys(directory, 1.0, 2.5, 3.25)
    await directory.change(KeyRef(middle.key_id), lambda it: disabled(it, at_s=5.0))

    page = await directory.keys()

    assert page == Page((new, replace(middle, disabled_at_s=5.0), old), None)


async def test_keys_of_a_tenant_or_of_a_service_are_listed_alone(directory: Directory) -> None:
    web, jobs, other = a_key(), a_key(service="jobs", created_at_s=2_000.0), a_key(tenant="globex")
    for key in (web, jobs, other):
        await directory.add(key)

    assert (await directory.keys(tenant="acme")).records == (jobs, web)
    assert (await directory.keys(tenant="acme", service="web")).records == (web,)
    assert (await directory.keys(tenant="none")).records == ()
    with pytest.raises(ValueError, match="tenant"):
        await directory.keys(service="web")


async def test_tenants_and_services_are_listed_by_name(directory: Directory) -> None:
    for tenant, service in (("globex", "web"), ("acme", "web"), ("acme", "jobs"), ("acme2", "jobs")):
        await directory.add(Service(tenant, service, 1.0))

    tenants, services = await directory.tenants(), await directory.services()
    assert [it.name for it in tenants.records] == ["acme", "acme2", "globex"]
    names = [("acme", "jobs"), ("acme", "web"), ("acme2", "jobs"), ("globex", "web")]
    assert [(it.tenant, it.name) for it in services.records] == names
    assert [it.name for it in (await directory.services(tenant="acme")).records] == ["jobs", "web"]


async def test_pages_follow_one_another_whatever_was_deleted(directory: Directory) -> None:
    records = await some_keys(directory, 5.0, 4.0, 3.0, 2.0, 1.0)
    first = await directory.keys(limit=2)
    await directory.delete(KeyRef(records[1].key_id))  # the one where the next page goes on
    second = await directory.keys(limit=2, after=first.next)
    third = await directory.keys(limit=2, after=second.next)

    assert [*first.records, *second.records, *third.records] == records
    assert third.next is None


async def test_last_page_says_so_though_it_is_full(directory: Directory) -> None:
    await some_keys(directory, 1.0, 2.0)

    assert (await directory.keys(limit=2)).next is None


async def test_only_what_the_filter_lets_through_counts(directory: Directory) -> None:
    records = await some_keys(directory, *range(8, 0, -1))
    even = [record for record in records if record.created_at_s % 2 == 0]

    first = await directory.keys(limit=3, where=lambda it: it.created_at_s % 2 == 0)
    rest = await directory.keys(limit=3, after=first.next, where=lambda it: it.created_at_s % 2 == 0)

    assert [*first.records, *rest.records] == even
    assert rest.next is None


async def test_page_of_one_tenants_services_stays_with_it(directory: Directory) -> None:
    for tenant in ("acme", "globex"):
        for service in ("a", "b", "c"):
            await directory.add(Service(tenant, service, 1.0))

    page = await directory.services(tenant="globex", after="acme/b")

    assert [(it.tenant, it.name) for it in page.records] == [("globex", name) for name in "abc"]
