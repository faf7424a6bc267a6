"""One answer of a member, owned by whoever opened it until closed: whole, or as batches of events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Self

from .errors import UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .interfaces import Reply
from .model import Attempt
from .sse import DONE, Event, EventTooLarge, Parser
from .survive import Patience
from .trial import Trial

# After `[DONE]` the end of the body is awaited this long.
_DONE_GRACE_S = 0.5


class Exchange:
    """What a member answered.

    Close it on every way out (it is an async context manager): that gives the member's load count back, and, if the
    body was not read to its end, closes the connection so that the server stops generating. Until then its owner may
    `reject` what came.
    """

    def __init__(
        self,
        reply: Reply,
        *,
        upstream_model: str,
        attempts: Sequence[Attempt],
        trial: Trial,
        idle_s: float,
        deadline_s: float,
        max_event_bytes: int,
    ) -> None:
        self.upstream_model = upstream_model  # what the member was asked for
        self.status = reply.status
        self.headers: Mapping[str, str] = reply.headers
        self.content_type = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        self._reply = reply
        self._attempts = attempts
        self._attempt = attempts[-1]
        self._trial = trial
        self._idle_s = idle_s
        self._patience = Patience(limit_s=idle_s, reason="idle", deadline_s=deadline_s, give_up=reply.close)
        self._parser = Parser(max_event_bytes=max_event_bytes)
        self._first: list[Event] = []
        self._is_done = False  # the answer is whole
        self._is_at_end = False  # of the body
        self._is_over = False

    @property
    def member(self) -> str:
        return self._attempt.member

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All tries of this request, the last one being this answer."""
        return tuple(self._attempts)

    @property
    def is_stream(self) -> bool:
        return self.status == 200 and self.content_type == "text/event-stream"

    def __repr__(self) -> str:
        state = "over" if self._is_over else "open"
        return f"<Exchange {self.member} {self.status} {self.content_type} attempt={self._attempt.number} {state}>"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Idempotent. After `[DONE]` it waits a moment for the end of the body, so that the connection is kept."""
        try:
            if self._is_done and not self._is_at_end and not self._is_over:
                await self._settle()
        finally:
            self.close()

    def close(self) -> None:
        """The same at once."""
        self._finish(error=None, is_complete=self._is_done)

    def accept(self) -> None:
        """What came is the whole answer, whatever may follow; for streams that say so in their own words."""
        self._is_done = True

    def reject(self, error: str) -> None:
        """What came was no answer, though it came whole: a failure of the member, under this machine word."""
        self._finish(error=error)

    async def read(self, max_bytes: int) -> bytes:
        """The whole body. Raises `UpstreamBroken` when it is cut short or longer, `UpstreamTimeout` when late."""
        body = bytearray()
        while data := await self._read():
            body += data
            if len(body) > max_bytes:
                raise self._broken(f"{self.member} answered with more than {max_bytes} bytes", "too-large")
        self._is_done = self._is_at_end = True
        return bytes(body)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """The events as they come, those of one network read together; never an empty list.

        Ends with the body, or with `[DONE]`. Raises `UpstreamBroken` and `UpstreamTimeout`; nothing is retried.
        """
        first, self._first = self._first, []
        if first:
            yield first
        while events := await self._next_events():
            yield events

    async def await_first_events(self, *, until_s: float) -> Sequence[Event]:
        """For the pool, before anything is handed out: the first batch, which `batches` will give again.

        The wait for the first byte of the body ends at `until_s`; comments are bytes too.
        """
        self._patience.allow(until_s - time.monotonic(), reason="timeout")
        self._first = await self._next_events()
        return self._first

    async def _next_events(self) -> list[Event]:
        if self._is_done or self._is_over:
            return []
        while data := await self._read():
            self._patience.allow(self._idle_s, reason="idle")
            try:
                events = self._parser.feed(data)
            except EventTooLarge as error:
                raise self._broken(f"{self.member} sent an event that is too large", "too-large") from error
            if events:
                self._is_done = events[-1].data == DONE
                return events
        self._is_done = self._is_at_end = True
        return self._parser.close()

    async def _read(self) -> bytes:
        self._patience.begin_wait()
        try:
            return await self._reply.read()
        except UpstreamFailed as error:
            raise self._failed(error) from error
        finally:
            self._patience.end_wait()

    async def _settle(self) -> None:
        try:
            async with asyncio.timeout(_DONE_GRACE_S):
                while await self._reply.read():
                    pass
        except (UpstreamFailed, TimeoutError):
            pass  # the answer was complete: how its connection ends is of no interest

    def _failed(self, error: UpstreamFailed) -> UpstreamFailed:
        reason = self._patience.gave_up
        self._finish(error=reason or error.reason)
        if reason is None:
            return UpstreamBroken(str(error), reason=error.reason, attempts=self.attempts)
        return UpstreamTimeout(f"{self.member} went silent ({reason})", reason=reason, attempts=self.attempts)

    def _broken(self, message: str, reason: str) -> UpstreamBroken:
        self._finish(error=reason)
        return UpstreamBroken(message, reason=reason, attempts=self.attempts)

    def _finish(self, *, error: str | None, is_complete: bool = False) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._patience.stop()
        self._reply.close()
        self._attempt.ended_s = time.monotonic()
        self._attempt.error = self._attempt.error or error
        self._trial.end(self._attempt.error, is_complete=is_complete and self.status == 200)
