"""What every `PoolState` promises, the one over a real Valkey and the one in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from backends import Capabilities, Member, MemoryPoolState, Overlay, PoolState, StorePoolState
from gateway.store.client import StoreClient
from tests.valkey import running_valkey

SPARE = Member(
    "spare",
    "http://spare:8000",
    "org/model",
    "r2",
    weight=2.5,
    tier=1,
    capabilities=Capabilities(32_000, frozenset({"image"}), frozenset({"legal"}), frozenset({"priority"})),
    api_key_env="SPARE_KEY",
)
EVERYTHING = Overlay(
    version_weights={"r1": 70.0, "r2": 30.0},
    drained={"a": "preemption"},
    members=(SPARE,),
    removed=frozenset({"b"}),
)


@asynccontextmanager
async def over_valkey() -> AsyncIterator[PoolState]:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=5) as store:
        yield StorePoolState(store, timeout_s=5)


@asynccontextmanager
async def in_memory() -> AsyncIterator[PoolState]:
    yield MemoryPoolState()


@pytest.fixture(params=[over_valkey, in_memory])
async def state(request: pytest.FixtureRequest) -> AsyncIterator[PoolState]:
    async with request.param() as state:
        yield state


async def test_at_first_no_pool_differs(state: PoolState) -> None:
    assert await state.read() == {}


async def test_a_change_is_kept_with_all_that_is_in_it(state: PoolState) -> None:
    assert await state.change("m", lambda _: EVERYTHING) == EVERYTHING
    assert await state.read() == {"m": EVERYTHING}


async def test_a_change_starts_from_what_is_there(state: PoolState) -> None:
    await state.change("m", lambda _: EVERYTHING)
    changed = await state.change("m", lambda overlay: overlay.with_drained("c", cause="admin"))
    assert changed.drained == {"a": "preemption", "c": "admin"}
    assert (await state.read())["m"] == changed


async def test_pools_are_apart(state: PoolState) -> None:
    await state.change("m", lambda overlay: overlay.with_drained("a", cause="admin"))
    await state.change("größer/n", lambda overlay: overlay.with_weights({"r1": 1.0}))
    assert set(await state.read()) == {"m", "größer/n"}


async def test_an_empty_overlay_resets_the_pool(state: PoolState) -> None:
    await state.change("m", lambda _: EVERYTHING)
    await state.change("m", lambda _: Overlay())
    assert await state.read() == {}


async def test_changes_at_the_same_time_are_all_made(state: PoolState) -> None:
    async def drain(name: str) -> None:
        await state.change("m", lambda overlay: overlay.with_drained(name, cause="admin"))

    await asyncio.gather(*(drain(f"s{number}") for number in range(5)))
    assert set((await state.read())["m"].drained) == {f"s{number}" for number in range(5)}


async def test_an_edit_that_fails_changes_nothing(state: PoolState) -> None:
    def fail(_: Overlay) -> Overlay:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await state.change("m", fail)
    assert await state.read() == {}
