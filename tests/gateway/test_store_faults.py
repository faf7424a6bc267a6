"""The store client when the store hangs, dies, loads, talks rubbish or comes back, on both event loops."""

from __future__ import annotations

import asyncio
import math
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvloop

from gateway.store.client import StoreClient
from tests.valkey import eventually, running_valkey

Run = Callable[[Coroutine[Any, Any, None]], None]

# What a server that tells nothing of itself answers to a client's greeting, INFO and PING.
GREETING = b"$0\r\n\r\n+PONG\r\n"


@pytest.fixture(params=[asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    runner: Run = request.param
    return runner


@asynccontextmanager
async def scripted_store(reply: Callable[[bytes], bytes]) -> AsyncIterator[str]:
    """A server that answers what it reads with the bytes it is told."""
    serving: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.add(asyncio.current_task())
        try:
            while command := await reader.read(65536):
                writer.write(reply(command))
        except ConnectionError:
            pass  # the client hung up with something unread
        finally:
            writer.close()

    with tempfile.TemporaryDirectory(prefix="eg-") as folder:
        path = str(Path(folder) / "socket")
        server = await asyncio.start_unix_server(serve, path)
        try:
            yield f"unix://{path}"
        finally:
            server.close()
            await asyncio.gather(*(task for task in serving if task))


def test_late_reply_is_given_to_nobody_else(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
            valkey.hang()
            with pytest.raises(TimeoutError):
                await store.execute("ECHO", "late")
            valkey.resume()

            assert await store.execute("ECHO", "next", deadline=time.monotonic() + 2) == b"next"
            assert store.is_up
            assert store.state.timeouts == 1

    run(scenario())


def test_hung_store_answers_no_later_than_the_deadline(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
            valkey.hang()
            started = time.monotonic()
            with pytest.raises(TimeoutError):
                await store.execute("PING", deadline=started + 0.1)
            assert 0.1 <= time.monotonic() - started < 1

    run(scenario())


def test_three_timeouts_in_a_row_fail_the_rest_at_once_until_it_answers(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url, silence_s=60) as store:
            valkey.hang()
            await asyncio.gather(*(store.execute("PING") for _ in range(3)), return_exceptions=True)
            assert not store.is_up

            refused = store.execute("PING")
            assert isinstance(
                refused.exception(), ConnectionError
            )  # done at once, without a turn of the loop

            valkey.resume()
            await eventually(lambda: store.is_up)
            assert await store.execute("ECHO", "back", deadline=time.monotonic() + 2) == b"back"

    run(scenario())


def test_callers_in_a_hurry_do_not_make_the_store_look_down(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url, deadline_s=5) as store:
            valkey.hang()
            hurried = [store.execute("PING", deadline=time.monotonic() + 0.005) for _ in range(10)]
            results = await asyncio.gather(*hurried, return_exceptions=True)
            assert all(isinstance(result, TimeoutError) for result in results)
            assert store.is_up

    run(scenario())


def test_silent_connection_is_given_up_and_made_anew(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url, silence_s=0.2) as store:
            valkey.hang()
            blocked = store.execute("BLPOP", "nothing", 0, deadline=math.inf)
            with pytest.raises(ConnectionError):
                await blocked
            assert not store.is_up

            valkey.resume()
            await eventually(lambda: store.is_up)
            assert await store.execute("ECHO", "back", deadline=time.monotonic() + 2) == b"back"

    run(scenario())


def test_killed_store_fails_what_waits_and_is_found_again(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
            await store.execute("SET", "kept", 1, deadline=time.monotonic() + 2)
            blocked = store.execute("BLPOP", "nothing", 0, deadline=math.inf)
            await valkey.kill()
            with pytest.raises(ConnectionError):
                await blocked
            assert not store.is_up

            await valkey.start()
            await eventually(lambda: store.is_up)
            assert await store.execute("GET", "kept", deadline=time.monotonic() + 2) == b"1"

    run(scenario())


def test_store_that_is_absent_at_the_start_is_just_down(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey:
            await valkey.kill()
            async with StoreClient.open(valkey.url) as store:
                assert not store.is_up
                assert store.state.failures >= 1
                await valkey.start()
                await eventually(lambda: store.is_up)
                assert store.state.reason is None

    run(scenario())


def test_loop_that_stood_still_is_not_a_late_store(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
            loop, (near, far) = asyncio.get_running_loop(), socket.socketpair()

            def stand_still() -> None:
                loop.remove_reader(near)
                time.sleep(0.3)

            with near, far:
                # In the callback of a socket, because after such a one uvloop runs timers before it reads.
                loop.add_reader(near, stand_still)
                replies = [store.execute("ECHO", number) for number in range(5)]
                loop.call_soon(far.send, b"now")  # after the commands have left

                assert await asyncio.gather(*replies) == [b"0", b"1", b"2", b"3", b"4"]

    run(scenario())


def test_unanswered_commands_are_bounded(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url, max_pending=10) as store:
            valkey.hang()
            waiting = [store.execute("PING", deadline=math.inf) for _ in range(10)]
            with pytest.raises(ConnectionError, match="Too many"):
                await store.execute("PING")
            valkey.resume()
            assert await asyncio.gather(*waiting) == [b"PONG"] * 10

    run(scenario())


def test_unsent_bytes_are_bounded(run: Run) -> None:
    async def scenario() -> None:
        async with running_valkey() as valkey, StoreClient.open(valkey.url) as store:
            valkey.hang()
            megabytes = [store.execute("SET", "big", b"x" * 1_000_000, deadline=math.inf) for _ in range(40)]
            await asyncio.sleep(0)  # they go to the socket, which takes little of it
            await asyncio.sleep(0)
            with pytest.raises(ConnectionError, match="Too many"):
                await store.execute("PING")
            valkey.resume()
            assert await asyncio.gather(*megabytes) == [b"OK"] * 40

    run(scenario())


async def test_store_that_loads_its_data_is_down() -> None:
    def loading(command: bytes) -> bytes:
        return GREETING if b"PING" in command else b"-LOADING Valkey is loading the dataset in memory\r\n"

    async with scripted_store(loading) as url, StoreClient.open(url) as store:
        with pytest.raises(ConnectionError, match="LOADING"):
            await store.execute("GET", "key")
        assert not store.is_up


async def test_server_that_became_a_replica_is_left() -> None:
    """READONLY: the write failed because of the server, not of the command."""
    readonly = b"-READONLY You can't write against a read only replica.\r\n"

    async with (
        scripted_store(lambda command: GREETING if b"PING" in command else readonly) as url,
        StoreClient.open(url) as store,
    ):
        with pytest.raises(ConnectionError, match="READONLY"):
            await store.execute("SET", "key", "value")
        assert not store.is_up
        await eventually(lambda: store.is_up)  # on a connection made anew


async def test_rubbish_instead_of_replies_ends_the_connection() -> None:
    def rubbish(command: bytes) -> bytes:
        return GREETING if b"PING" in command else b"HTTP/1.1 400 Bad Request\r\n\r\n"

    async with scripted_store(rubbish) as url, StoreClient.open(url) as store:
        with pytest.raises(ConnectionError):
            await store.execute("GET", "key")


async def test_reply_nobody_asked_for_ends_the_connection() -> None:
    def once_more(command: bytes) -> bytes:
        return GREETING if b"PING" in command else b"+ONE\r\n+TWO\r\n"

    async with scripted_store(once_more) as url, StoreClient.open(url) as store:
        assert await store.execute("GET", "key") == b"ONE"
        assert not store.is_up


async def test_store_that_hangs_up_after_its_greeting_is_down() -> None:
    async with scripted_store(lambda _: GREETING + b"+AGAIN\r\n") as url, StoreClient.open(url) as store:
        assert not store.is_up
