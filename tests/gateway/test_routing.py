"""What a request needs of a member, where it would rather go, and what is added for it."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from auth import Principal, Priority
from backends import Capabilities, Member, Needs, Pools, UnknownModel
from backends.testing import FakeBackend
from gateway.body import split
from gateway.pools.effective import specs_of
from gateway.routing import Route, Routing
from gateway.settings.reading import Settings

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}


def principal(tenant: str = "acme", key_id: str = "k1", priority: Priority = Priority.NORMAL) -> Principal:
    return Principal(key_id=key_id, tenant=tenant, service="web", priority=priority)


@asynccontextmanager
async def routing(*members: dict[str, Any], **pool: Any) -> AsyncIterator[Routing]:
    named = [
        {"url": f"http://h{number}:1", "name": f"m-{number}", "revision": "r", "model": "u", **member}
        for number, member in enumerate(members, 1)
    ]
    configured: Any = {"m": {"members": named, **pool}}
    specs = specs_of(Settings(pools=configured))
    pools = Pools({model: spec.pool for model, spec in specs.items()}, backend=FakeBackend())
    async with pools:
        yield Routing(pools, specs, secret=b"s")


def route(
    to: Routing, *, who: Principal | None = None, headers: dict[bytes, bytes] | None = None, **fields: Any
) -> Route:
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]} | fields).encode()
    now_s = time.monotonic()
    return to.route(
        "m",
        who or principal(),
        split(raw),
        headers or {},
        body_bytes=len(raw),
        began_s=now_s,
        deadline_s=now_s + 600,
    )


async def test_a_pool_that_declares_nothing_takes_every_request() -> None:
    async with routing({}) as to:
        assert route(to, messages=[{"role": "user", "content": [IMAGE]}]).needs == Needs()


async def test_pictures_need_a_member_that_reads_them() -> None:
    async with routing({"capabilities": {"modalities": ["image"]}}, {}) as to:
        assert route(to, messages=[{"role": "user", "content": [IMAGE]}]).needs.modalities == {"image"}
        assert route(to).needs.modalities == frozenset()


async def test_a_long_request_needs_a_member_that_reads_that_much() -> None:
    async with routing({"capabilities": {"max_context": 100}}, {"capabilities": {"max_context": 4000}}) as to:
        assert route(to, max_tokens=1000).needs.context_tokens > 1000
        assert route(to, max_tokens=9000).needs.context_tokens == 4000


async def test_a_session_is_a_tenants_own() -> None:
    async with routing({}) as to:
        header = {b"x-echogate-session": b"s1"}
        one, other = (
            route(to, who=principal(tenant=tenant), headers=header).affinity.session for tenant in ("a", "b")
        )
        assert one is not None
        assert one != other
        assert route(to).affinity.session is None


async def test_requests_share_a_prefix_by_their_first_message() -> None:
    async with routing({}, policy="prefix") as to:
        system = {"role": "system", "content": "be kind"}
        one, two, three = (
            route(to, messages=messages).affinity.prefix
            for messages in (
                [system, {"role": "user", "content": "a"}],
                [system, {"role": "user", "content": "b"}],
                [{"role": "user", "content": "b"}],
            )
        )
        assert one == two != three


async def test_the_deadline_is_that_of_the_pool() -> None:
    async with routing({}, timeouts={"request_timeout_s": 5}) as to:
        assert route(to).deadline_s == pytest.approx(time.monotonic() + 5, abs=1)


async def test_versions_stick_to_keys_where_the_pool_says_so() -> None:
    members = [{"revision": f"r{number}"} for number in range(6)]
    async with routing(*members, sticky_versions=True) as to:
        assert len({route(to, who=principal(key_id="k")).version for _ in range(50)}) == 1
    async with routing(*members) as to:
        assert len({route(to, who=principal(key_id="k")).version for _ in range(200)}) == 6


async def test_a_new_configuration_is_followed_at_once() -> None:
    async with routing({}) as to:
        other: Any = {"n": ["http://h:1"]}
        to.use(specs_of(Settings(pools=other)))
        assert not to.serves("m")
        with pytest.raises(UnknownModel):
            route(to)


def member(*features: str) -> Member:
    return Member("x", "http://h:1", "u", capabilities=Capabilities(features=frozenset(features)))


async def test_priority_and_salt_go_only_to_members_that_understand_them() -> None:
    async with routing({}) as to:
        one = route(to, who=principal(priority=Priority.BATCH))
        assert one.fields_for(member(), {}) == {}
        assert one.fields_for(member("priority"), {}) == {"priority": "2"}
        assert set(one.fields_for(member("cache_salt"), {})) == {"cache_salt"}


async def test_nobody_gets_ahead_of_their_class_but_may_stand_back() -> None:
    async with routing({}) as to:
        one = route(to, who=principal(priority=Priority.NORMAL))
        assert one.fields_for(member("priority"), {"priority": -5}) == {"priority": "1"}
        assert one.fields_for(member("priority"), {"priority": 7}) == {"priority": "7"}


async def test_tenants_have_different_salts() -> None:
    async with routing({}) as to:
        one, other = (
            route(to, who=principal(tenant=tenant)).fields_for(member("cache_salt"), {})
            for tenant in ("a", "b")
        )
        assert one != other
