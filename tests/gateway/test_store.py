"""The store client against a real Valkey that works."""

from __future__ import annotations

import asyncio
import gc
import math
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.exceptions import ResponseError

from gateway.store.client import StoreClient
from tests.valkey import Valkey, running_valkey


@pytest.fixture
async def valkey() -> AsyncIterator[Valkey]:
    async with running_valkey() as server:
        yield server


@pytest.fixture
async def store(valkey: Valkey) -> AsyncIterator[StoreClient]:
    async with StoreClient.open(valkey.url, deadline_s=2.0) as client:
        yield client


async def reads_of(store: StoreClient) -> int:
    """How many reads from sockets the server has made."""
    info: bytes = await store.execute("INFO", "stats")
    fields = dict(line.split(b":", 1) for line in info.splitlines() if b":" in line)
    return int(fields[b"total_reads_processed"])


async def test_every_command_gets_its_own_reply(store: StoreClient) -> None:
    replies = await asyncio.gather(*(store.execute("ECHO", number) for number in range(3_000)))

    assert replies == [b"%d" % number for number in range(3_000)]


async def test_commands_of_one_tick_leave_in_one_write(store: StoreClient) -> None:
    before = await reads_of(store)

    async def request(number: int) -> None:
        await store.execute("ECHO", number)

    await asyncio.gather(*(request(number) for number in range(200)))

    assert await reads_of(store) - before == 2  # one for the two hundred, one for INFO


async def test_arguments_may_be_text_bytes_and_numbers(store: StoreClient) -> None:
    await store.execute("RPUSH", "list", "é", b"\xff\x00", 7, 0.1)

    assert await store.execute("LRANGE", "list", 0, -1) == ["é".encode(), b"\xff\x00", b"7", b"0.1"]


async def test_refused_command_raises_and_the_store_stays_up(store: StoreClient) -> None:
    with pytest.raises(ResponseError, match="unknown command"):
        await store.execute("NOSUCH")

    assert store.is_up


async def test_script_runs_also_after_the_server_forgot_it(store: StoreClient) -> None:
    async def double(number: int) -> Any:
        return await store.script("return ARGV[1] * 2", keys=[], args=[number])

    assert await double(1) == 2
    await store.execute("SCRIPT", "FLUSH")

    replies = [double(2), store.execute("ECHO", "between"), double(3)]
    assert await asyncio.gather(*replies) == [4, b"between", 6]


async def test_script_that_fails_is_refused_once(store: StoreClient) -> None:
    with pytest.raises(ResponseError, match="NOSCRIPT by itself"):
        await store.script("return redis.error_reply('NOSCRIPT by itself')", keys=[], args=[])


async def test_cancelled_caller_does_not_shift_the_replies(store: StoreClient) -> None:
    first, second = store.execute("ECHO", "first"), store.execute("ECHO", "second")
    first.cancel()

    assert await second == b"second"


async def test_blocking_read_outlasts_the_default_deadline(valkey: Valkey) -> None:
    async with StoreClient.open(valkey.url, deadline_s=0.02, silence_s=math.inf) as store:
        assert await store.execute("BLPOP", "nothing", 0.1, deadline=math.inf) is None
        assert store.is_up
        assert store.state.timeouts == 0


async def test_deadline_that_has_passed_asks_nothing(store: StoreClient) -> None:
    with pytest.raises(TimeoutError):
        await store.execute("SET", "key", "value", deadline=time.monotonic() - 1)

    assert await store.execute("GET", "key") is None
    assert store.state.timeouts == 0


async def test_closing_fails_what_waits(valkey: Valkey) -> None:
    async with StoreClient.open(valkey.url) as store:
        waiting = store.execute("BLPOP", "nothing", 0, deadline=math.inf)

    with pytest.raises(ConnectionError):
        await waiting
    with pytest.raises(ConnectionError):
        await store.execute("PING")


async def test_failure_nobody_waits_for_is_not_logged(store: StoreClient) -> None:
    logged: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: logged.append(context))

    store.execute("NOSUCH")
    await store.execute("PING")
    gc.collect()

    assert logged == []


async def test_password_and_database_of_the_url_are_used(valkey: Valkey, store: StoreClient) -> None:
    await store.execute("CONFIG", "SET", "requirepass", "p@ss/word")

    async with StoreClient.open(f"{valkey.url}?db=3&password=p%40ss%2Fword") as entered:
        await entered.execute("SET", "here", 1)

    assert await store.execute("EXISTS", "here") == 0
    await store.execute("SELECT", 3)
    assert await store.execute("EXISTS", "here") == 1


async def test_wrong_password_is_down_and_nowhere_shown(valkey: Valkey, store: StoreClient) -> None:
    await store.execute("CONFIG", "SET", "requirepass", "right")

    async with StoreClient.open(f"{valkey.url}?password=hunter2") as refused:
        assert not refused.is_up
        assert "WRONGPASS" in str(refused.state.reason)
        assert "hunter2" not in f"{refused!r} {refused.state}"
