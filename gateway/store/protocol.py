"""Owns one connection to a store: writes the commands of a loop tick at once, pairs replies with callers.

It decides about single commands (whose deadline passed, whose caller left); whether the server as a whole is
up is decided in `store/node.py`.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import hiredis

from .replies import Unavailable, WrongServer, as_exception

# A store that reads slower than we write must not fill our memory: with this much unsent, new commands fail.
_MAX_UNSENT_BYTES = 16 * 1024 * 1024
_LATE_BEFORE_TROUBLE = 3
_NOTHING = object()

# Given the error reply to a command, and its future. True: the command was sent again and settles the future.
Rescue = Callable[[Exception, asyncio.Future[Any]], bool]


class _Waiter(NamedTuple):
    """A place in the queue of replies. It stays when its caller is gone, so that replies keep their order."""

    future: asyncio.Future[Any]
    sent_s: float
    deadline: float
    rescue: Rescue | None


class Connection(asyncio.Protocol):
    """Commands in, futures out. `on_trouble(reason)` is called when the connection is lost, when the store
    says that it cannot serve, and when it was late for several commands in a row.

    Only commands that gave the store at least `patience_s` count as late: a caller who came with little time
    left says nothing about the store.
    """

    def __init__(
        self, *, on_trouble: Callable[[str], None], patience_s: float, silence_s: float, max_pending: int
    ) -> None:
        self._on_trouble = on_trouble
        self._patience_s = patience_s
        self._silence_s = silence_s
        self._max_pending = max_pending
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader(replyError=as_exception, notEnoughData=_NOTHING)
        self._transport: asyncio.Transport | None = None
        self._waiters: deque[_Waiter] = deque()
        self._unsent: list[bytes] = []
        self._is_congested = False
        self._heard_s = 0.0  # when the head of the queue began to wait: the last sign of life, or its sending
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_s = math.inf
        self._late_in_row = 0
        self.late_total = 0
        self.is_lost = False

    def __repr__(self) -> str:
        waiting = len(self._waiters)
        return f"<Connection waiting={waiting} late_in_row={self._late_in_row} is_lost={self.is_lost}>"

    def send(
        self,
        command: bytes,
        *,
        deadline: float,
        now: float,
        future: asyncio.Future[Any] | None = None,
        rescue: Rescue | None = None,
    ) -> asyncio.Future[Any]:
        """Put a packed command into this tick's write. It settles `future`, or a new one. `rescue` is asked
        what to do about an error reply before anybody is told."""
        if future is None:
            future = self._loop.create_future()
        if self.is_lost:
            return failed(future, ConnectionError("The store's connection is lost."))
        if self._is_congested or len(self._waiters) >= self._max_pending:
            return failed(future, ConnectionError("Too many commands wait for the store."))
        if deadline <= now:
            return failed(future, TimeoutError("The deadline had passed before the store was asked."))
        if not self._waiters:
            self._heard_s = now
        self._enqueue(command, _Waiter(future, now, deadline, rescue))
        return future

    def abort(self, reason: str) -> None:
        """Drop the connection at once; everything that waits fails."""
        self._lose(reason)
        if self._transport is not None:
            self._transport.abort()

    # --- what asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one without saying so
        self._transport.set_write_buffer_limits(high=_MAX_UNSENT_BYTES)

    def pause_writing(self) -> None:
        self._is_congested = True

    def resume_writing(self) -> None:
        self._is_congested = False

    def connection_lost(self, error: Exception | None) -> None:
        self._lose(f"The connection broke: {error}" if error else "The store closed the connection.")

    def data_received(self, data: bytes) -> None:
        self._heard_s = time.monotonic()
        try:
            self._reader.feed(data)
            while (reply := self._reader.gets()) is not _NOTHING:
                self._deliver(reply, self._waiters.popleft())
        except (hiredis.ProtocolError, IndexError):  # not the protocol, or a reply nobody asked for
            self.abort("The store does not speak the Redis protocol.")

    # --- replies

    def _deliver(self, reply: Any, waiter: _Waiter) -> None:
        if waiter.future.done():  # cancelled, or told that it is late: this reply is nobody else's
            return
        self._late_in_row = 0
        if not isinstance(reply, Exception):
            waiter.future.set_result(reply)
        elif waiter.rescue is None or not waiter.rescue(reply, waiter.future):
            failed(waiter.future, reply)
            if isinstance(reply, Unavailable):
                self._on_trouble(str(reply))
            elif isinstance(reply, WrongServer):
                self.abort(str(reply))

    # --- commands of one tick

    def _enqueue(self, command: bytes, waiter: _Waiter) -> None:
        self._waiters.append(waiter)
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent.append(command)
        if self._alarm is None or waiter.deadline < self._alarm_s:
            self._set_alarm(min(waiter.deadline, waiter.sent_s + self._silence_s))

    def _flush(self) -> None:
        data = b"".join(self._unsent)
        self._unsent.clear()
        if self._transport is not None and not self.is_lost:
            self._transport.write(data)

    # --- deadlines: one timer for all that wait, set to the earliest

    def _set_alarm(self, moment_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm, self._alarm_s = None, moment_s
        if moment_s < math.inf:
            self._alarm = self._loop.call_later(moment_s - time.monotonic(), self._read_once_more)

    def _read_once_more(self) -> None:
        # When it was our loop that stood still, the replies may lie in the socket: uvloop runs timers before
        # it reads. One more turn tells a late store from a late loop.
        self._alarm = self._loop.call_later(0.001, self._judge)

    def _judge(self) -> None:
        self._alarm, self._alarm_s = None, math.inf
        if not self._waiters:
            return
        now = time.monotonic()
        if now - self._heard_s >= self._silence_s:
            self.abort(f"The store was silent for {self._silence_s:g} s.")
            return
        next_s = self._heard_s + self._silence_s
        for waiter in self._waiters:
            if waiter.deadline > now:
                next_s = min(next_s, waiter.deadline)
            elif not waiter.future.done():
                self._time_out(waiter, now=now)
        self._set_alarm(next_s)
        if self._late_in_row >= _LATE_BEFORE_TROUBLE:
            self._on_trouble(f"late {self._late_in_row} times in a row")

    def _time_out(self, waiter: _Waiter, *, now: float) -> None:
        failed(waiter.future, TimeoutError("The store did not answer by the deadline."))
        self.late_total += 1
        if now - waiter.sent_s >= self._patience_s:
            self._late_in_row += 1

    def _lose(self, reason: str) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        if self._alarm is not None:
            self._alarm.cancel()
        for waiter in self._waiters:
            if not waiter.future.done():
                failed(waiter.future, ConnectionError("The store's connection was lost."))
        self._waiters.clear()
        self._on_trouble(reason)


def failed(future: asyncio.Future[Any], error: Exception) -> asyncio.Future[Any]:
    """Fail the future, and mark the error as seen: a caller who left is no reason to log it."""
    future.set_exception(error)
    future.exception()
    return future
