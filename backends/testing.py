"""A backend without a network, for tests: each member says what it was told to say."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Final

from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .model import Member, Outgoing

HANG: Final = None  # in place of a chunk: nothing more comes


class FakeReply:
    """A scripted answer. `is_closed` tells whether it was dropped before its end."""

    def __init__(
        self, status: int, headers: Mapping[str, str], chunks: Sequence[bytes | UpstreamFailed | None]
    ):
        self.status = status
        self.headers = headers
        self.is_closed = False
        self._chunks = deque(chunks)
        self._is_over = False
        self._dropped = asyncio.Event()

    async def read(self) -> bytes:
        if self.is_closed:
            raise UpstreamBroken("the reply was closed", reason="cut")
        if not self._chunks:
            self._is_over = True
            return b""
        chunk = self._chunks.popleft()
        if isinstance(chunk, UpstreamFailed):
            raise chunk
        if chunk is HANG:
            await self._dropped.wait()
            raise UpstreamBroken("the reply was closed", reason="cut")
        return chunk

    def close(self) -> None:
        if not self._is_over:
            self.is_closed = True
            self._dropped.set()


class FakeBackend:
    """Members answer what was scripted for them, in order; unscripted requests get `{}`.

    `sent` holds (member name, request) in order of sending. GETs have pages of their own (`page`), else 404.
    """

    def __init__(self) -> None:
        self.sent: list[tuple[str, Outgoing]] = []
        self._scripts: defaultdict[str, deque[FakeReply | UpstreamFailed | None]] = defaultdict(deque)
        self._pages: dict[tuple[str, str], tuple[int, bytes | UpstreamFailed | None]] = {}

    def page(
        self, member: str, path: str, body: bytes | UpstreamFailed | None = b"", *, status: int = 200
    ) -> None:
        """What a GET gets there from now on; HANG: nothing."""
        self._pages[member, path] = (status, body)

    def reply(
        self,
        member: str,
        *chunks: bytes | UpstreamFailed | None,
        status: int = 200,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
    ) -> FakeReply:
        reply = FakeReply(status, {"content-type": content_type, **(headers or {})}, chunks)
        self._scripts[member].append(reply)
        return reply

    def fail(self, member: str, error: UpstreamFailed) -> None:
        self._scripts[member].append(error)

    def hang(self, member: str) -> None:
        self._scripts[member].append(HANG)

    async def send(
        self, member: Member, request: Outgoing, *, connect_s: float, first_byte_s: float
    ) -> FakeReply:
        self.sent.append((member.name, request))
        step = (
            self._next_page(member.name, request.path) if request.method == "GET" else self._next(member.name)
        )
        if isinstance(step, UpstreamFailed):
            raise step
        if step is HANG:
            await asyncio.sleep(first_byte_s)
            raise UpstreamTimeout(f"{member.name} did not begin its answer in time", reason="timeout")
        return step

    async def aclose(self) -> None:
        pass

    def _next(self, member: str) -> FakeReply | UpstreamFailed | None:
        script = self._scripts[member]
        return script.popleft() if script else FakeReply(200, {"content-type": "application/json"}, [b"{}"])

    def _next_page(self, member: str, path: str) -> FakeReply | UpstreamFailed | None:
        status, body = self._pages.get((member, path), (404, b""))
        return FakeReply(status, {}, [body]) if isinstance(body, bytes) else body
