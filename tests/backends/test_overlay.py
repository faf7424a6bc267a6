"""Admins' changes of a pool: laid over the configuration, told apart from it, and kept in the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from backends import (
    Member,
    Overlay,
    Pool,
    StateUnavailable,
    StorePoolState,
    UnreadableState,
    differences,
    laid_over,
)
from gateway.store.client import StoreClient
from tests.backends.routers import a_member
from tests.valkey import eventually, running_valkey

A, B, C = (a_member(name) for name in "abc")
POOL = Pool((A, B))


def test_an_empty_overlay_changes_nothing() -> None:
    assert laid_over(POOL, Overlay()) == POOL
    assert differences(POOL, Overlay()) == []


def test_a_member_is_added() -> None:
    overlay = Overlay().with_member(C)
    assert laid_over(POOL, overlay).members == (A, B, C)
    assert differences(POOL, overlay) == ["+ c added"]


def test_a_member_is_changed_in_its_place() -> None:
    heavier = replace(A, weight=3.0)
    overlay = Overlay().with_member(heavier)
    assert laid_over(POOL, overlay).members == (heavier, B)
    assert differences(POOL, overlay) == ["~ a changed"]


def test_a_member_is_taken_out_and_put_back() -> None:
    overlay = Overlay().with_drained("a", cause="admin").without_member("a")
    assert laid_over(POOL, overlay).members == (B,)
    assert differences(POOL, overlay) == ["- a removed"]
    assert laid_over(POOL, overlay.with_member(A)).members == (A, B)


def test_a_drain_is_told_with_its_first_cause() -> None:
    overlay = Overlay().with_drained("a", cause="preemption").with_drained("a", cause="admin")
    assert laid_over(POOL, overlay).drained == {"a": "preemption"}
    assert differences(POOL, overlay) == ["~ a drained (preemption)"]
    assert laid_over(POOL, overlay.without_drained("a")) == POOL


def test_weights_take_the_place_of_configured_ones() -> None:
    configured = replace(POOL, version_weights={"1": 100.0})
    overlay = Overlay().with_weights({"1": 70, "2": 30})
    assert laid_over(configured, overlay).version_weights == {"1": 70, "2": 30}
    assert differences(configured, overlay) == ["~ versions weighted 1: 70, 2: 30"]


def test_names_that_are_no_longer_configured_do_no_harm() -> None:
    overlay = Overlay(removed=frozenset({"gone"}), drained={"gone": "admin"})
    assert laid_over(POOL, overlay).members == (A, B)


async def test_the_store_gets_the_name_of_a_credential_and_never_the_credential() -> None:
    secret = Member("a", "http://a", "m", api_key="sk-very-secret", api_key_env="A_KEY")
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=5) as store:
        state = StorePoolState(store, timeout_s=5)
        await state.change("m", lambda overlay: overlay.with_member(secret))
        kept = await store.execute("HGETALL", "eg:{k}:pools")
        assert "sk-very-secret" not in str(kept)
        assert (await state.read())["m"].members == (replace(secret, api_key=None),)


@pytest.mark.parametrize("record", ["[2,{}]", "[1", "{}", '[1,{"members":[{"name":1}]}]'])
async def test_what_cannot_be_read_is_refused_and_not_taken_for_nothing(record: str) -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=5) as store:
        await store.execute("HSET", "eg:{k}:pools", "m", record)
        state = StorePoolState(store, timeout_s=5)
        with pytest.raises(UnreadableState):
            await state.read()
        with pytest.raises(UnreadableState):
            await state.change("m", lambda overlay: overlay)


async def test_a_store_that_is_gone_is_said_to_be() -> None:
    async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=1) as store:
        state = StorePoolState(store, timeout_s=1)
        await valkey.kill()
        await eventually(lambda: not store.is_up)
        with pytest.raises(StateUnavailable):
            await state.read()
        with pytest.raises(StateUnavailable):
            await state.change("m", lambda overlay: overlay)
