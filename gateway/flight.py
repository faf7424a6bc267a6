"""One upstream call shared by everybody who asks the same thing at the same time.

A flight is a task owned here; callers only take a seat in it. What one caller does (leave, be slow, ask for a
stream) never changes what another gets:

- A caller that leaves gives up its seat. The call is cancelled when the last seat is empty.
- A caller that reads too slowly is cut off (`TooSlow`); the producer waits for nobody.
- If the call fails before anything was sent, the caller who started it gets the error and one of the others
  starts anew with its own request and its own deadline; the rest move over. After the first byte everybody gets
  the error.

This file knows nothing of HTTP: a flight has a head, items with sizes, and a result.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from types import TracebackType
from typing import Generic, Self, TypeVar

Head = TypeVar("Head")
Item = TypeVar("Item")
Result = TypeVar("Result")

# A backend that fails every time must not be tried once for each of a thousand followers, one after the other.
MAX_RESTARTS = 2


class ClientLeft(Exception):
    """The caller of this seat is gone."""


class TooSlow(Exception):
    """The caller of this seat fell further behind than its bound."""


class Flight(Generic[Head, Item, Result]):
    """The producer's side: `begin`, `push` items, `finish` with a result; an exception is a failure."""

    def __init__(self, flights: Flights[Head, Item, Result], key: Hashable, *, restarts: int = 0) -> None:
        self._flights = flights
        self._key = key
        self._restarts = restarts
        self._seats: list[Seat[Head, Item, Result]] = []
        self._items: list[Item] = []
        self._first = 0  # number of the oldest item still held
        self._size = 0
        self._task: asyncio.Task[None] | None = None
        self.head: Head | None = None
        self.result: Result | None = None
        self.failure: BaseException | None = None

    def __repr__(self) -> str:
        state = "failed" if self.failure else "finished" if self.result is not None else "open"
        return f"<Flight {state} seats={len(self._seats)} items={self._first + len(self._items)} bytes={self._size}>"

    def begin(self, head: Head) -> None:
        self.head = head
        self._wake()

    def push(self, items: Sequence[Item], size: int) -> None:
        """Hand items to every seat; `size` is their weight in bytes."""
        self._items.extend(items)
        self._size += size
        for seat in self._seats:
            seat.grow(size)
        if self._size > self._flights.join_bytes:
            # Newcomers could no longer get the whole answer, so only what a seat has yet to read is kept.
            self._flights.close(self._key, self)
            oldest = min((seat.position for seat in self._seats), default=sys.maxsize)
            dropped = min(oldest - self._first, len(self._items))
            del self._items[:dropped]
            self._first += dropped
        self._wake()

    def finish(self, result: Result) -> None:
        """Everything was pushed. The producer may go on (to store the answer) while the seats are served."""
        self.result = result
        self._wake()

    async def landed(self) -> bool:
        """Is the answer complete? Then wait until the producer has stored it."""
        if self.result is None or self._task is None:
            return False
        await asyncio.wait((self._task,))
        return True

    def _start(self, produce: Producer[Head, Item, Result]) -> None:
        self._task = asyncio.create_task(self._run(produce))
        self._flights.tasks.add(self._task)
        self._task.add_done_callback(self._flights.tasks.discard)

    async def _run(self, produce: Producer[Head, Item, Result]) -> None:
        try:
            await produce(self)
        except asyncio.CancelledError:
            self._fail(ClientLeft())
            raise
        except Exception as error:  # a boundary: every seat raises it again in its own request
            self._fail(error)
        finally:
            self._flights.close(self._key, self)

    def _fail(self, error: BaseException) -> None:
        self._flights.close(self._key, self)
        if self.result is not None:
            return  # the answer was complete; what failed came after it and concerns no caller
        followers = [seat for seat in self._seats if not seat.is_leader]
        if (
            self.head is None
            and followers
            and self._restarts < MAX_RESTARTS
            and not isinstance(error, ClientLeft)
        ):
            self._seats = [seat for seat in self._seats if seat.is_leader]
            self._flights.restart(self._key, followers, restarts=self._restarts + 1)
        self.failure = error
        self._wake()

    def _wake(self) -> None:
        for seat in self._seats:
            seat.wake()

    def _leave(self, seat: Seat[Head, Item, Result]) -> bool:
        """True if this was the last seat and the call was cancelled with it."""
        if seat in self._seats:  # it is not where the call failed and its followers moved over
            self._seats.remove(seat)
        if self._seats or self.result is not None or self._task is None or self._task.done():
            return False
        self._flights.close(self._key, self)
        self._task.cancel()
        return True


Producer = Callable[[Flight[Head, Item, Result]], Awaitable[None]]


class Seat(Generic[Head, Item, Result]):
    """The caller's side of a flight. Use as a context manager: leaving it is what frees the backend.

    Raises TooSlow out of the `async with` where the caller fell too far behind.
    """

    def __init__(
        self,
        flight: Flight[Head, Item, Result],
        produce: Producer[Head, Item, Result],
        *,
        lag_bytes: int,
        is_leader: bool,
    ) -> None:
        self._flight = flight
        self.produce = produce
        self._lag_bytes = lag_bytes
        self._behind = 0
        self._waiter: asyncio.Future[None] | None = None
        self._task = asyncio.current_task()
        self._gone: Exception | None = None
        self._has_left = False
        self.position = 0
        self.is_leader = is_leader
        flight._seats.append(self)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._has_left = True
        flight = self._flight
        if flight._leave(self) and flight._task is not None:
            # The call was cancelled with the last seat; what it has to tell belongs into this request's trace.
            await asyncio.wait((flight._task,), timeout=1)
        if isinstance(error, asyncio.CancelledError) and isinstance(self._gone, TooSlow) and self._task:
            self._task.uncancel()
            raise self._gone from error

    async def head(self) -> Head:
        """Waits until the call was answered. Raises what it failed with, or ClientLeft."""
        while self._flight.head is None:
            await self._wait()
        return self._flight.head

    async def batches(self) -> AsyncIterator[list[Item]]:
        """Every item from the first on, as many at a time as have come in."""
        while True:
            flight = self._flight
            items = flight._items[self.position - flight._first :]
            if items:
                self.position += len(items)
                self._behind = 0
                yield items
            elif flight.result is not None:
                return
            else:
                await self._wait()

    async def result(self) -> Result:
        """Waits for the end of the call; whoever only wants the result needs no items kept."""
        self.position = sys.maxsize
        while self._flight.result is None:
            await self._wait()
        return self._flight.result

    async def settled(self) -> None:
        """Waits until the producer has done all of its work, storing the answer included."""
        task = self._flight._task
        if task is not None:
            await asyncio.wait((task,))

    def abandon(self) -> None:
        """The client is gone: whoever waits on this seat gets ClientLeft."""
        if self._gone is None and not self._has_left:
            self._gone = ClientLeft()
            self.wake()

    def grow(self, size: int) -> None:
        self._behind += size
        # Whoever waits here has read everything up to now; only one that is busy elsewhere can be behind.
        if self._behind > self._lag_bytes and self._waiter is None and self._gone is None and self._task:
            self._gone = TooSlow()
            self._task.cancel()  # it sits in a write to its client, and only a cancel gets it out of there

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def move(self, flight: Flight[Head, Item, Result], *, is_leader: bool) -> None:
        self._flight, self.is_leader = flight, is_leader
        flight._seats.append(self)

    async def _wait(self) -> None:
        if self._gone is not None:
            raise self._gone
        if self._flight.failure is not None:
            raise self._flight.failure
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
        if self._gone is not None:
            raise self._gone


class Flights(Generic[Head, Item, Result]):
    """All flights of this worker.

    `join_bytes`: how much of an answer is held for newcomers; `lag_bytes`: how far one caller may fall behind.
    """

    def __init__(self, *, join_bytes: int = 1 << 20, lag_bytes: int = 1 << 20) -> None:
        self.join_bytes = join_bytes
        self._lag_bytes = lag_bytes
        self._open: dict[Hashable, Flight[Head, Item, Result]] = {}
        self.tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self.tasks)

    def find(self, key: Hashable) -> Flight[Head, Item, Result] | None:
        """The flight that `join` would take a seat in, if one is under way."""
        return self._open.get(key)

    def join(self, key: Hashable | None, produce: Producer[Head, Item, Result]) -> Seat[Head, Item, Result]:
        """A seat in the open flight of this key, else in a new one that this caller leads. Key None: always new."""
        flight = self._open.get(key) if key is not None else None
        if flight is not None:
            return Seat(flight, produce, lag_bytes=self._lag_bytes, is_leader=False)
        flight = Flight(self, key)
        if key is not None:
            self._open[key] = flight
        seat = Seat(flight, produce, lag_bytes=self._lag_bytes, is_leader=True)
        flight._start(produce)
        return seat

    def restart(self, key: Hashable, seats: Sequence[Seat[Head, Item, Result]], *, restarts: int) -> None:
        """The first of the seats leads a new flight; the others move over."""
        flight = Flight(self, key, restarts=restarts)
        self._open[key] = flight
        for number, seat in enumerate(seats):
            seat.move(flight, is_leader=number == 0)
        flight._start(seats[0].produce)

    def close(self, key: Hashable, flight: Flight[Head, Item, Result]) -> None:
        """No newcomers any more."""
        if self._open.get(key) is flight:
            del self._open[key]

    async def aclose(self) -> None:
        """Wait for what is under way (storing the last answers), then cancel what is left."""
        for patience_s in (5, None):
            tasks = set(self.tasks)
            if tasks:
                await asyncio.wait(tasks, timeout=patience_s)
            for task in self.tasks:
                task.cancel()
