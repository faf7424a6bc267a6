"""Every `Directory` there is, each with how to take it down, and keys to put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from auth import Directory, KeyRecord, StoreDirectory, mint
from auth.testing import MemoryDirectory
from gateway.store.client import StoreClient
from tests.valkey import eventually, running_valkey


@dataclass(frozen=True, slots=True)
class Subject:
    """A directory, and how to take it down."""

    directory: Directory
    take_down: Callable[[], Awaitable[None]]


@asynccontextmanager
async def over_valkey() -> AsyncIterator[Subject]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=2) as store:

        async def take_down() -> None:
            await valkey.kill()
            await eventually(lambda: not store.is_up)

        yield Subject(StoreDirectory(store), take_down)


@asynccontextmanager
async def in_memory() -> AsyncIterator[Subject]:
    directory = MemoryDirectory()

    async def take_down() -> None:
        directory.is_down = True

    yield Subject(directory, take_down)


def a_key(*, tenant: str = "acme", service: str = "web", created_at_s: float = 1_000.0) -> KeyRecord:
    record, _ = mint(tenant=tenant, service=service, name="Zoë’s key", created_at_s=created_at_s)
    return record


async def some_keys(directory: Directory, *created_at_s: float) -> list[KeyRecord]:
    records = [a_key(created_at_s=moment) for moment in created_at_s]
    for record in records:
        await directory.add(record)
    return records


DIRECTORIES = [over_valkey, in_memory]
