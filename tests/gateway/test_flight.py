"""One call for many: nobody's leaving, slowness or failure becomes another's."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from gateway.flight import MAX_RESTARTS, ClientLeft, Flight, Flights, Producer, Seat, TooSlow

AnyFlights = Flights[str, str, str]
AnyFlight = Flight[str, str, str]


class Script:
    """A producer that counts its runs and stops at a gate."""

    def __init__(self, *, fails: int = 0, fails_after_begin: bool = False, items: int = 3) -> None:
        self.runs = 0
        self.cancelled = 0
        self.gate = asyncio.Event()
        self._fails, self._after, self._items = fails, fails_after_begin, items

    async def __call__(self, flight: AnyFlight) -> None:
        self.runs += 1
        run = self.runs
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        if run <= self._fails and not self._after:
            raise ConnectionError(f"run {run}")
        flight.begin("head")
        for number in range(self._items):
            flight.push([f"item {number}"], 10)
            await asyncio.sleep(0)
            if run <= self._fails and self._after:
                raise ConnectionError(f"run {run}")
        flight.finish("result")


async def read(
    flights: AnyFlights, produce: Producer[str, str, str], key: str | None = "q"
) -> tuple[str, list[str], str]:
    async with flights.join(key, produce) as seat:
        return await read_seat(seat)


async def read_seat(seat: Seat[str, str, str]) -> tuple[str, list[str], str]:
    head = await seat.head()
    items = [item async for batch in seat.batches() for item in batch]
    return head, items, await seat.result()


WHOLE = ("head", ["item 0", "item 1", "item 2"], "result")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110 - whatever is waited for happens in other tasks of this loop
            await asyncio.sleep(0)


async def test_a_hundred_equal_callers_make_one_call_and_all_get_the_whole_answer():
    flights, script = AnyFlights(), Script()
    readers = [asyncio.create_task(read(flights, script)) for _ in range(100)]
    await until(lambda: script.runs > 0)
    script.gate.set()
    assert set(map(repr, await asyncio.gather(*readers))) == {repr(WHOLE)}
    assert script.runs == 1
    await until(lambda: len(flights) == 0)


async def test_without_a_key_everybody_flies_alone():
    flights, script = AnyFlights(), Script()
    script.gate.set()
    await asyncio.gather(*[read(flights, script, None) for _ in range(3)])
    assert script.runs == 3


async def test_the_first_one_leaving_changes_nothing_for_the_others():
    flights, script = AnyFlights(), Script()
    readers = [asyncio.create_task(read(flights, script)) for _ in range(10)]
    await until(lambda: script.runs > 0)
    readers[0].cancel()
    await asyncio.sleep(0)
    script.gate.set()
    assert await asyncio.gather(*readers[1:]) == [WHOLE] * 9
    assert (script.runs, script.cancelled) == (1, 0)


async def test_the_call_ends_with_the_last_caller():
    flights, script = AnyFlights(), Script()
    readers = [asyncio.create_task(read(flights, script)) for _ in range(3)]
    await until(lambda: script.runs > 0)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    assert script.cancelled == 1
    assert len(flights) == 0


async def test_an_abandoned_seat_raises_and_a_newcomer_starts_anew():
    flights, script = AnyFlights(), Script()

    async def abandoned() -> None:
        async with flights.join("q", script) as seat:
            await until(lambda: script.runs > 0)
            seat.abandon()
            await seat.head()

    with pytest.raises(ClientLeft):
        await abandoned()
    script.gate.set()
    assert await read(flights, script) == WHOLE
    assert script.runs == 2


async def test_when_the_first_call_fails_a_follower_leads_and_only_the_leader_gets_the_error():
    flights, script = AnyFlights(), Script(fails=1)
    readers = [asyncio.create_task(read(flights, script)) for _ in range(10)]
    await until(lambda: script.runs > 0)
    script.gate.set()
    first, *others = await asyncio.gather(*readers, return_exceptions=True)
    assert isinstance(first, ConnectionError)
    assert others == [WHOLE] * 9
    assert script.runs == 2


async def test_restarts_are_bounded():
    flights, script = AnyFlights(), Script(fails=1000)
    readers = [asyncio.create_task(read(flights, script)) for _ in range(50)]
    await until(lambda: script.runs > 0)
    script.gate.set()
    results = await asyncio.gather(*readers, return_exceptions=True)
    assert all(isinstance(result, ConnectionError) for result in results)
    assert script.runs == 1 + MAX_RESTARTS


async def test_after_the_first_byte_everybody_gets_the_error_and_nothing_is_started_again():
    flights, script = AnyFlights(), Script(fails=1, fails_after_begin=True)
    readers = [asyncio.create_task(read(flights, script)) for _ in range(5)]
    await until(lambda: script.runs > 0)
    script.gate.set()
    results = await asyncio.gather(*readers, return_exceptions=True)
    assert all(isinstance(result, ConnectionError) for result in results)
    assert script.runs == 1


async def test_whoever_joins_in_the_middle_gets_the_whole_answer():
    flights = AnyFlights()
    more = asyncio.Event()

    async def produce(flight: AnyFlight) -> None:
        flight.begin("head")
        flight.push(["a", "b"], 2)
        await more.wait()
        flight.push(["c"], 1)
        flight.finish("result")

    first = asyncio.create_task(read(flights, produce))
    await asyncio.sleep(0)
    second = asyncio.create_task(read(flights, produce))
    await asyncio.sleep(0)
    more.set()
    assert await first == await second == ("head", ["a", "b", "c"], "result")


async def test_beyond_the_joinable_size_a_newcomer_flies_alone_and_nothing_is_kept_twice():
    flights = AnyFlights(join_bytes=100)
    runs = 0
    more = asyncio.Event()

    async def produce(flight: AnyFlight) -> None:
        nonlocal runs
        runs += 1
        flight.begin("head")
        for number in range(20):
            flight.push([str(number)], 10)
            await asyncio.sleep(0)
        await more.wait()
        flight.finish("result")

    first = asyncio.create_task(read(flights, produce))
    await until(lambda: not flights.find("q") and runs == 1)
    second = asyncio.create_task(read(flights, produce))
    more.set()
    expected = ("head", [str(number) for number in range(20)], "result")
    assert await first == await second == expected
    assert runs == 2


async def test_a_slow_caller_is_cut_and_slows_nobody():
    flights = AnyFlights(lag_bytes=50)
    stuck = asyncio.Event()

    async def produce(flight: AnyFlight) -> None:
        flight.begin("head")
        for number in range(20):
            flight.push([str(number)], 10)
            await asyncio.sleep(0)
        flight.finish("result")

    async def slow() -> None:
        async with flights.join("q", produce) as seat:
            await seat.head()
            async for _ in seat.batches():
                await stuck.wait()  # as in a write to a client that reads nothing

    slow_task = asyncio.create_task(slow())
    await asyncio.sleep(0)
    assert (await read(flights, produce))[2] == "result"
    with pytest.raises(TooSlow):
        await slow_task
    assert slow_task.cancelled() is False


async def test_a_caller_that_only_wants_the_result_is_never_too_slow():
    flights = AnyFlights(lag_bytes=50, join_bytes=40)

    async def produce(flight: AnyFlight) -> None:
        flight.begin("head")
        for number in range(20):
            flight.push([str(number)], 10)
            await asyncio.sleep(0)
        flight.finish("result")

    async with flights.join("q", produce) as seat:
        assert await seat.result() == "result"


async def test_the_producer_may_go_on_after_the_answer_and_newcomers_still_get_it():
    flights = AnyFlights()
    stored = asyncio.Event()
    runs = 0

    async def produce(flight: AnyFlight) -> None:
        nonlocal runs
        runs += 1
        flight.begin("head")
        flight.finish("result")
        await stored.wait()

    async with flights.join("q", produce) as seat:
        assert await seat.result() == "result"
        assert (await read(flights, produce))[2] == "result"
        stored.set()
        await seat.settled()
    assert runs == 1
    assert not flights.find("q")


async def test_closing_waits_for_what_is_under_way():
    flights, script = AnyFlights(), Script()
    reader = asyncio.create_task(read(flights, script))
    await until(lambda: script.runs > 0)
    script.gate.set()
    await flights.aclose()
    assert await reader == WHOLE
