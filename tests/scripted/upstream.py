"""The scripted server: what the next POST gets, what arrived, and how it answers when nothing is scripted."""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from .messages import completion, delta, usage
from .wire import CUT, HANG, RESET, WAIT_S, Call, Connection, Cue, Part, Wire

Handler = Callable[[Call, Wire], Awaitable[None]]


class ScriptedUpstream:
    """The server; chunks of default streams are `chunk_delay_s` apart, their first `first_byte_delay_s` late.

    `handler`, if set, answers every unscripted POST. `base_url` is what a pool member is given.
    """

    def __init__(self, model: str = "m", *, words: int = 4) -> None:
        self.model = model
        self.words = words
        self.first_byte_delay_s = 0.0
        self.chunk_delay_s = 0.0
        self.health_status = 200
        self.max_model_len = 4096
        self.version = "0.0.1"
        self.handler: Handler | None = None
        self.requests: list[Call] = []
        self.port = 0
        self._scripts: deque[Handler] = deque()
        self._connections: set[Connection] = set()
        self._opened = 0
        self._server: asyncio.Server | None = None
        self._arrival = asyncio.Condition()

    # What the next POST gets

    def reply_json(self, value: Any, *, status: int = 200, times: int = 1, **headers: str) -> None:
        self.script(lambda _, wire: wire.json(value, status=status, **headers), times=times)

    def reply(
        self,
        body: bytes,
        *,
        status: int = 200,
        content_type: str = "application/json",
        times: int = 1,
        **headers: str,
    ) -> None:
        self.script(
            lambda _, wire: wire.reply(body, status=status, content_type=content_type, **headers), times=times
        )

    def stream(self, parts: Sequence[Part], *, status: int = 200, times: int = 1, **headers: str) -> None:
        self.script(lambda _, wire: wire.stream(parts, status=status, **headers), times=times)

    def raw(self, *parts: bytes | float | Cue, times: int = 1) -> None:
        """Bytes straight onto the socket, status line and all (or not HTTP at all)."""

        async def play(_: Call, wire: Wire) -> None:
            for part in parts:
                if isinstance(part, Cue):
                    await wire.cue(part)
                elif isinstance(part, bytes):
                    await wire.send(part)
                else:
                    await asyncio.sleep(part)

        self.script(play, times=times)

    def cut(self, *, times: int = 1) -> None:
        self.raw(CUT, times=times)

    def reset(self, *, times: int = 1) -> None:
        self.raw(RESET, times=times)

    def hang(self, *, times: int = 1) -> None:
        self.raw(HANG, times=times)

    def script(self, handler: Handler, *, times: int = 1) -> None:
        self._scripts.extend([handler] * times)

    def unscript(self) -> None:
        """Drop the scripts that nobody has asked for: the defaults answer again."""
        self._scripts.clear()

    # What arrived

    @property
    def calls(self) -> list[Call]:
        """The POSTs."""
        return [call for call in self.requests if call.method == "POST"]

    @property
    def active(self) -> int:
        """POSTs whose reply is not complete and whose caller is still there."""
        return sum(call.answered_s is None and call.closed_s is None for call in self.calls)

    @property
    def connections(self) -> int:
        """Sockets open now."""
        return len(self._connections)

    async def wait_calls(self, count: int, timeout_s: float = WAIT_S) -> list[Call]:
        """Wait until that many POSTs have arrived."""
        async with asyncio.timeout(timeout_s), self._arrival:
            await self._arrival.wait_for(lambda: len(self.calls) >= count)
        return self.calls

    # Life

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Listen; after a `stop` on the same port again."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Connection(self), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Die: connections are cut, new ones are refused."""
        if self._server is not None:
            self._server.close()
        tasks = [connection.die() for connection in list(self._connections)]
        await asyncio.gather(*tasks, return_exceptions=True)
        self._server = None

    def opened(self, connection: Connection) -> int:
        self._connections.add(connection)
        self._opened += 1
        return self._opened

    def closed(self, connection: Connection) -> None:
        self._connections.discard(connection)

    async def answer(self, call: Call, wire: Wire) -> None:
        self.requests.append(call)
        async with self._arrival:
            self._arrival.notify_all()
        if call.method == "GET":
            await self._answer_get(call, wire)
        elif self._scripts:
            await self._scripts.popleft()(call, wire)
        elif self.handler is not None:
            await self.handler(call, wire)
        else:
            await self.answer_chat(call, wire)
        if call.closed_s is None:
            call.answered_s = time.monotonic()

    async def _answer_get(self, call: Call, wire: Wire) -> None:
        if call.path == "/v1/models":
            model = {
                "id": self.model,
                "object": "model",
                "root": self.model,
                "max_model_len": self.max_model_len,
            }
            await wire.json({"object": "list", "data": [model]})
        elif call.path == "/version":
            await wire.json({"version": self.version})
        elif call.path == "/health":
            await wire.reply(b"", status=self.health_status)
        else:
            await wire.json({"detail": "Not Found"}, status=404)

    async def answer_chat(self, call: Call, wire: Wire) -> None:
        """The default answer; custom handlers may end with it."""
        request = call.json
        if self.first_byte_delay_s:
            await asyncio.sleep(self.first_byte_delay_s)
        heard = re.findall(r"nonce-[\w-]+", call.body.decode("utf-8", "replace"))
        text = " ".join([*(f"word{i}" for i in range(self.words)), *heard, secrets.token_hex(6)])
        model, n = request.get("model", self.model), request.get("n") or 1
        if request.get("stream"):
            wants_usage = (request.get("stream_options") or {}).get("include_usage", False)
            await wire.stream(self._chunks(text, model, n, wants_usage))
        else:
            await wire.json(completion(text, model=model, n=n))

    def _chunks(self, text: str, model: str, n: int, wants_usage: bool) -> list[Part]:
        chunk_id = f"chatcmpl-{secrets.token_hex(6)}"
        indexes = range(n)
        parts: list[Part] = [
            delta("", index=i, role="assistant", model=model, chunk_id=chunk_id) for i in indexes
        ]
        for word in re.findall(r"\S+\s*", text):
            parts.append(self.chunk_delay_s)
            parts += [delta(word, index=i, model=model, chunk_id=chunk_id) for i in indexes]
        parts += [delta(index=i, finish="stop", model=model, chunk_id=chunk_id) for i in indexes]
        if wants_usage:
            parts.append(delta(model=model, chunk_id=chunk_id) | {"choices": [], "usage": usage(text, n)})
        return [*parts, "[DONE]"]
