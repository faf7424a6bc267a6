"""Where connections lead, how many there are, and how long they are kept."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from backends import AddressRule, Member, Outgoing, UpstreamBroken, UpstreamTimeout, VllmBackend
from tests.backends.asking import answer, ask, member, pools
from tests.scripted import HANG, ScriptedUpstream, delta

GET = Outgoing("GET", "/v1/models")


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


async def send(backend: VllmBackend, url: str) -> int:
    reply = await backend.send(Member("a", url, "m"), GET, connect_s=1.0, first_byte_s=5.0)
    reply.close()
    return reply.status


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest",
        "http://[::ffff:169.254.169.254]",
        "http://0xa9fea9fe",
        "http://[fe80::1]",
    ],
)
async def test_metadata_services_are_not_connected_to_however_they_are_written(url: str) -> None:
    backend = VllmBackend()
    with pytest.raises(UpstreamBroken) as caught:
        await send(backend, url)
    await backend.aclose()
    assert caught.value.reason == "denied"
    assert "169" not in str(caught.value)


async def test_a_name_that_leads_to_a_denied_address_is_not_connected_to(upstream: ScriptedUpstream) -> None:
    """The address is looked at where the socket is opened, so no second look-up can come to another result."""
    backend = VllmBackend(addresses=AddressRule(denied=["127.0.0.0/8", "::1/128"]))
    with pytest.raises(UpstreamBroken) as caught:
        await send(backend, f"http://localhost:{upstream.port}")
    await backend.aclose()
    assert caught.value.reason == "denied"
    assert upstream.requests == []


async def test_a_denied_address_says_nothing_against_the_member(upstream: ScriptedUpstream) -> None:
    listed = Member("denied", "http://169.254.1.1", "m", "1", weight=1e9), member("fine", upstream)
    async with pools(*listed) as asked:
        async with await ask(asked) as exchange:
            assert [attempt.error for attempt in exchange.attempts] == ["denied", None]
        assert {one.member: one.breaker for one in asked.members()}["denied"] == "closed"


async def test_connections_to_a_member_are_limited_and_waiting_for_one_is_bounded(
    upstream: ScriptedUpstream,
) -> None:
    upstream.stream([delta("a"), HANG], times=2)
    backend = VllmBackend(max_connections=2)
    async with pools(member("only", upstream), backend=backend) as asked:
        streams = [await ask(asked, stream=True) for _ in range(2)]
        with pytest.raises(UpstreamTimeout) as caught:
            await ask(asked)
        assert caught.value.reason == "busy"
        assert upstream.connections == 2
        (view,) = asked.members()
        assert (view.breaker, view.in_flight) == ("closed", 2)
        for stream in streams:
            await stream.aclose()
        assert (await answer(asked))["choices"]


async def test_a_connection_is_not_used_beyond_its_age(upstream: ScriptedUpstream) -> None:
    backend = VllmBackend(max_connection_age_s=0.3)
    async with pools(member("only", upstream), backend=backend) as asked:
        began_s = time.monotonic()
        while time.monotonic() - began_s < 0.8:
            await answer(asked)
        await until(lambda: upstream.connections == 1)
    assert 2 <= len({call.connection for call in upstream.calls}) <= 4


async def test_an_answer_that_takes_longer_than_a_connections_age_is_read_to_its_end(
    upstream: ScriptedUpstream,
) -> None:
    upstream.stream([delta("a"), 0.4, delta("b"), "[DONE]"])
    backend = VllmBackend(max_connection_age_s=0.05)
    async with pools(member("only", upstream), backend=backend) as asked:
        async with await ask(asked, stream=True) as exchange:
            await asyncio.sleep(0.1)
            await answer(asked)
            events = [event async for batch in exchange.batches() for event in batch]
        assert len(events) == 3
        await answer(asked)
        await until(lambda: upstream.connections == 1)


async def test_a_server_that_moved_is_found_where_its_name_leads_now(
    upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C144, though the old server is still there and its connection alive."""
    ask_the_system = socket.getaddrinfo
    where = [upstream.port]

    def getaddrinfo(host: Any, port: Any, *args: Any, **kwargs: Any) -> Any:
        return ask_the_system("127.0.0.1", where[0], *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    backend = VllmBackend(max_connection_age_s=0.2, dns_ttl_s=0)
    listed = Member("only", "http://moving.test:1", "m", "1")
    async with ScriptedUpstream() as elsewhere, pools(listed, backend=backend) as asked:
        await answer(asked)
        assert len(upstream.calls) == 1
        where[0] = elsewhere.port
        deadline_s = time.monotonic() + 20
        while not elsewhere.calls:
            assert time.monotonic() < deadline_s
            await answer(asked)
        before = len(upstream.calls)
        for _ in range(5):
            await answer(asked)
        assert len(upstream.calls) == before
