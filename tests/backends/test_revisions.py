"""Versions that nobody configured: guessed from what servers tell, never merged while unknown."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator

import pytest

from backends import Member, Pools, UpstreamBroken, Version, VllmBackend
from backends.choose import Revisions
from tests.backends.asking import answer, ask, member, pools
from tests.scripted import ScriptedUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as server:
        yield server


async def guessed(upstream: ScriptedUpstream, **fields: str) -> Version:
    async with pools(member("a", upstream, revision=None, **fields)) as asked:
        return asked.resolve("m")


async def test_a_configured_revision_is_taken_and_nobody_asked(upstream: ScriptedUpstream) -> None:
    async with pools(member("a", upstream, revision="2026-11")) as asked:
        assert asked.resolve("m") == Version("m", "2026-11")
    assert upstream.requests == []


async def test_equal_servers_are_one_guessed_version(upstream: ScriptedUpstream) -> None:
    async with ScriptedUpstream() as twin:
        listed = member("a", upstream, revision=None), member("b", twin, revision=None)
        async with pools(*listed) as asked:
            assert len({asked.resolve("m") for _ in range(30)}) == 1
            assert asked.resolve("m").is_guessed
    assert await guessed(upstream) == await guessed(upstream)


async def test_what_a_server_tells_makes_its_version(upstream: ScriptedUpstream) -> None:
    seen = {await guessed(upstream)}
    upstream.version = "0.0.2"
    seen.add(await guessed(upstream))
    upstream.max_model_len = 8192
    seen.add(await guessed(upstream))
    upstream.model = "org/other"
    seen.add(await guessed(upstream))
    assert len(seen) == 4


async def test_a_server_that_is_not_there_gets_a_provisional_version() -> None:
    gone = ScriptedUpstream()
    await gone.start()
    await gone.stop()
    first, again = await guessed(gone), await guessed(gone)
    assert first.is_guessed
    assert first != again  # nothing cached under it is ever found again


async def test_the_true_version_follows_when_the_server_comes() -> None:
    late = ScriptedUpstream()
    await late.start()
    await late.stop()
    listed = [member("a", late, revision=None)]
    backend = VllmBackend()
    revisions = Revisions(listed, backend=backend, timeout_s=1.0)
    changed, complete = [await revisions.refresh()], [revisions.are_complete]
    provisional = revisions["a"]
    await late.start()
    changed.append(await revisions.refresh())
    complete.append(revisions.are_complete)
    assert changed == complete == [False, True]
    assert provisional.is_provisional
    assert not revisions["a"].is_provisional
    assert revisions["a"].label != provisional.label
    await backend.aclose()
    await late.stop()


async def test_a_server_that_goes_keeps_what_is_known_of_it(upstream: ScriptedUpstream) -> None:
    backend = VllmBackend()
    revisions = Revisions([member("a", upstream, revision=None)], backend=backend, timeout_s=1.0)
    await revisions.refresh()
    known = revisions["a"]
    await upstream.stop()
    assert not await revisions.refresh()
    assert revisions["a"] == known
    assert not revisions.are_complete
    await backend.aclose()


async def test_a_start_with_dead_servers_is_short() -> None:
    gone = ScriptedUpstream()
    await gone.start()
    await gone.stop()
    started_s = time.monotonic()
    async with pools(member("a", gone, revision=None)) as asked:
        assert time.monotonic() - started_s < 1.0
        with pytest.raises(UpstreamBroken):
            await ask(asked)


async def test_credentials_go_out_where_they_are_set_and_nothing_else_does(
    upstream: ScriptedUpstream,
) -> None:
    async with pools(member("a", upstream, revision=None, api_key="sk-upstream")) as asked:
        await answer(asked)
        assert "sk-upstream" not in repr(asked)
    assert {call.headers["authorization"] for call in upstream.requests} == {"Bearer sk-upstream"}
    expected = {"host", "accept", "content-type", "content-length", "x-request-id", "authorization"}
    assert set(upstream.calls[0].headers) == expected


async def test_without_credentials_none_go_out(upstream: ScriptedUpstream) -> None:
    async with pools(member("a", upstream)) as asked:
        await answer(asked)
    assert "authorization" not in upstream.calls[0].headers


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [Member("a", "http://a", "m"), Member("a", "http://b", "m")],
        [Member("a", "http://a", "m", weight=0.0)],
    ],
)
def test_a_pool_that_cannot_work_is_refused(listed: list[Member]) -> None:
    with pytest.raises(ValueError, match=r"'a'|'m'"):
        Pools({"m": listed}, backend=VllmBackend())
