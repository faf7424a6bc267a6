"""What every `Backend` promises, the one with a network and the fake."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Protocol

import pytest

from backends import Backend, Member, Outgoing, Reply, UpstreamBroken, UpstreamTimeout, VllmBackend
from backends.testing import HANG as FAKE_HANG
from backends.testing import FakeBackend, FakeReply
from tests.scripted import CUT, HANG, ScriptedUpstream

POST = Outgoing("POST", "/v1/chat/completions", {"x-one": "1"}, b'{"a": 1.0}')


class Stage(Protocol):
    """A backend, a member, and a way to tell that member what to do next."""

    backend: Backend
    member: Member

    def reply(self, *chunks: bytes, status: int = 200, hang: bool = False, cut: bool = False) -> None: ...

    def refuse(self) -> None: ...

    def hang(self) -> None: ...

    def received(self) -> list[bytes | None]: ...

    async def wait_hung_up(self) -> None: ...


class ScriptedStage:
    def __init__(self, upstream: ScriptedUpstream) -> None:
        self.upstream = upstream
        self.backend: Backend = VllmBackend()
        self.member = Member("a", upstream.base_url, "m")

    def reply(self, *chunks: bytes, status: int = 200, hang: bool = False, cut: bool = False) -> None:
        end = [HANG] if hang else [CUT] if cut else []
        self.upstream.stream([*chunks, *end], status=status)

    def refuse(self) -> None:
        self.member = Member("a", "http://127.0.0.1:1", "m")

    def hang(self) -> None:
        self.upstream.hang()

    def received(self) -> list[bytes | None]:
        return [call.body for call in self.upstream.calls]

    async def wait_hung_up(self) -> None:
        await self.upstream.calls[-1].wait_closed(1.0)


class FakeStage:
    def __init__(self) -> None:
        self.fake = FakeBackend()
        self.backend: Backend = self.fake
        self.member = Member("a", "http://nowhere", "m")
        self.last: FakeReply | None = None

    def reply(self, *chunks: bytes, status: int = 200, hang: bool = False, cut: bool = False) -> None:
        end = [FAKE_HANG] if hang else [UpstreamBroken("a cut its answer short", reason="cut")] if cut else []
        self.last = self.fake.reply("a", *chunks, *end, status=status, content_type="text/event-stream")

    def refuse(self) -> None:
        self.fake.fail("a", UpstreamBroken("a could not be connected to", reason="connect"))

    def hang(self) -> None:
        self.fake.hang("a")

    def received(self) -> list[bytes | None]:
        return [request.body for _, request in self.fake.sent]

    async def wait_hung_up(self) -> None:
        assert self.last is not None
        assert self.last.is_closed


@pytest.fixture(params=["vllm", "fake"])
async def stage(request: pytest.FixtureRequest) -> AsyncIterator[Stage]:
    async with ScriptedUpstream() as upstream:
        made: Stage = ScriptedStage(upstream) if request.param == "vllm" else FakeStage()
        yield made
        await made.backend.aclose()


async def send(stage: Stage, *, first_byte_s: float = 5.0) -> Reply:
    return await stage.backend.send(stage.member, POST, connect_s=1.0, first_byte_s=first_byte_s)


async def read_all(reply: Reply) -> bytes:
    chunks = []
    while data := await reply.read():
        chunks.append(data)
    return b"".join(chunks)


async def test_an_answer_has_status_headers_and_a_body_with_an_end(stage: Stage) -> None:
    stage.reply(b"one ", b"two", status=404)
    reply = await send(stage)
    body = await read_all(reply)
    assert (reply.status, reply.headers["content-type"], body) == (404, "text/event-stream", b"one two")
    assert await reply.read() == b""


async def test_the_body_goes_out_byte_for_byte(stage: Stage) -> None:
    stage.reply(b"{}")
    (await send(stage)).close()
    assert stage.received() == [b'{"a": 1.0}']


async def test_a_refused_connection_is_broken(stage: Stage) -> None:
    stage.refuse()
    with pytest.raises(UpstreamBroken) as caught:
        await send(stage)
    assert caught.value.reason == "connect"
    assert "127.0.0.1" not in str(caught.value)


async def test_no_head_in_time_is_a_timeout(stage: Stage) -> None:
    stage.hang()
    started_s = time.monotonic()
    with pytest.raises(UpstreamTimeout) as caught:
        await send(stage, first_byte_s=0.1)
    assert caught.value.reason == "timeout"
    assert time.monotonic() - started_s < 1.0


async def test_a_body_cut_short_is_broken(stage: Stage) -> None:
    stage.reply(b"one", cut=True)
    reply = await send(stage)
    with pytest.raises(UpstreamBroken) as caught:
        await read_all(reply)
    assert caught.value.reason == "cut"
    reply.close()


async def test_closing_hangs_up_and_ends_a_waiting_read(stage: Stage) -> None:
    stage.reply(b"one", hang=True)
    reply = await send(stage)
    assert await reply.read() == b"one"
    waiting = asyncio.create_task(reply.read())
    await asyncio.sleep(0)
    reply.close()
    with pytest.raises(UpstreamBroken):
        async with asyncio.timeout(1.0):
            await waiting
    await stage.wait_hung_up()


async def test_cancelling_ends_the_wait_for_a_head(stage: Stage) -> None:
    stage.hang()
    sending = asyncio.create_task(send(stage))
    await asyncio.sleep(0.01)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
