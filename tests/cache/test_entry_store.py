"""What entries look like in a real store: one round trip, a TTL on every key, and doubt means absent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from cache import Answer, RedisEntries, changes
from cache.identity import Keys, entry_id, space
from cache.interfaces import Argument
from gateway.store.client import StoreClient
from tests.cache.parts import ANSWER, SECRET, Clock, asked, entry_for, part, real_store, soon, ticket_for


class Counting:
    """Passes commands on and remembers their names."""

    def __init__(self, store: StoreClient) -> None:
        self._store = store
        self.names: list[str] = []

    def execute(
        self, *command: Argument, deadline: float | None = None, like_key: Argument | None = None
    ) -> asyncio.Future[Any]:
        self.names.append(str(command[0]))
        return self._store.execute(*command, deadline=deadline, like_key=like_key)

    def script(
        self,
        source: str,
        *,
        keys: Sequence[Argument],
        args: Sequence[Argument],
        deadline: float | None = None,
    ) -> Any:
        self.names.append("script")
        return self._store.script(source, keys=keys, args=args, deadline=deadline)

    def wait_replicas(self, count: int, timeout_ms: int, *, like_key: Argument) -> asyncio.Future[int]:
        self.names.append("WAIT")
        return self._store.wait_replicas(count, timeout_ms, like_key=like_key)


@pytest.fixture
async def store() -> AsyncIterator[StoreClient]:
    async with real_store() as (_, client):
        yield client


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def entries(store: StoreClient, clock: Clock) -> RedisEntries:
    return RedisEntries(store, secret=SECRET, wall=clock)


async def put(entries: RedisEntries, clock: Clock, *, ttl_s: float = 60.0) -> str:
    question = asked()
    epoch = await entries.epoch("team-a", deadline=soon())
    ticket = replace(
        ticket_for(question, epoch),
        vector=np.eye(4, dtype=np.float32)[0],
        space=space(SECRET, question.partition, "f"),
    )
    return await entries.put(ticket, entry_for(question, at_s=clock(), ttl_s=ttl_s), deadline=soon())


async def found(entries: RedisEntries) -> Answer | None:
    question = asked()
    named = entry_id(SECRET, question.partition, question.text)
    result = await entries.find(question, named, deadline=soon())
    return None if result.entry is None else result.entry.answer


async def test_a_look_up_is_one_command_and_a_write_another(store: StoreClient, clock: Clock) -> None:
    counting = Counting(store)
    entries = RedisEntries(counting, secret=SECRET, wall=clock)
    await put(entries, clock)
    counting.names.clear()
    assert await found(entries) == ANSWER
    await put(entries, clock)
    assert counting.names == [
        "MGET",
        "script",
        "script",
    ]  # the first script is this test's own look at the epoch


async def test_every_key_has_a_ttl_and_the_epoch_outlives_its_entries(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock, ttl_s=86_400)
    await entries.flush("team-b", deadline=soon())
    await entries.remove("team-c", [1], deadline=soon())
    names = await store.execute("KEYS", "*")
    lives = {name: await store.execute("PTTL", name) for name in names}
    keys = Keys(SECRET, "team-a")
    assert len(lives) >= 4
    assert all(left > 0 for left in lives.values())
    least = 86_390_000
    assert all(lives[name.encode()] > least for name in (keys.epoch, keys.changes))


async def test_an_evicted_epoch_makes_its_entries_invisible_for_good(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock)
    await store.execute("DEL", Keys(SECRET, "team-a").epoch)
    assert await found(entries) is None
    assert await found(entries) is None  # there is an epoch again by now, another one


@pytest.mark.parametrize(
    "damage",
    [
        lambda record: b"",
        lambda record: b"not msgpack",
        lambda record: record[:-3],
        lambda record: b"\x80\x04\x95pickle",
        lambda record: b"\x63" + record[1:],
        lambda record: record[:5] + bytes(len(record) - 5),
        lambda record: record[:5] + b"\xff" * 4 + record[9:],
        lambda record: record[:1] + b"\xff" * 4 + record[5:],
        lambda record: msgspec.msgpack.encode({"format": 1}),
    ],
    ids=[
        "empty",
        "rubbish",
        "truncated",
        "pickle",
        "another format",
        "zeroes",
        "broken header",
        "endless header",
        "another shape",
    ],
)
async def test_a_record_that_is_not_ours_to_read_is_absent(
    store: StoreClient, entries: RedisEntries, clock: Clock, damage: Any
) -> None:
    await put(entries, clock)
    question = asked()
    name = Keys(SECRET, "team-a").entry(entry_id(SECRET, question.partition, question.text))
    await store.execute("SET", name, damage(await store.execute("GET", name)))
    assert await found(entries) is None


async def test_another_secret_sees_nothing_of_it(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock)
    assert await found(RedisEntries(store, secret=b"another", wall=clock)) is None


async def test_the_stream_is_bounded(store: StoreClient, clock: Clock) -> None:
    entries = RedisEntries(store, secret=SECRET, changes_kept=100, wall=clock)
    for _ in range(400):
        await put(entries, clock)
    # "About": the store drops whole nodes of a hundred items.
    assert await store.execute("XLEN", Keys(SECRET, "team-a").changes) <= 200


async def test_nothing_that_was_asked_or_answered_is_in_a_key_or_a_repr(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock)
    question = asked()
    shown = repr(await store.execute("KEYS", "*")) + repr(entry_for(question, at_s=0.0)) + repr(question)
    shown += repr(ticket_for(question, b"epoch")) + repr(part())
    assert not any(word in shown for word in ("France", "Paris", "team-a:"))


async def vectors_in(entries: RedisEntries) -> list[int]:
    shard = Keys(SECRET, "team-a").shard
    return [each.entry_id async for page in entries.scan_vectors(shard) for each in page]


async def test_vectors_are_kept_as_long_as_their_entries_beside_the_stream(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock)
    keys, named = Keys(SECRET, "team-a"), ticket_for(asked(), None).entry_id
    await store.execute("DEL", keys.changes)
    assert await vectors_in(entries) == [named]
    assert await store.execute("PTTL", keys.vector(named)) == pytest.approx(
        await store.execute("PTTL", keys.entry(named)), abs=50
    )
    await entries.remove("team-a", [named], deadline=soon())
    assert await vectors_in(entries) == []


async def test_a_flushed_namespace_has_no_vectors(entries: RedisEntries, clock: Clock) -> None:
    await put(entries, clock)
    await entries.flush("team-a", deadline=soon())
    assert await vectors_in(entries) == []


async def test_an_answer_that_is_now_for_equal_texts_only_has_no_vector_and_indexes_hear_of_it(
    store: StoreClient, entries: RedisEntries, clock: Clock
) -> None:
    await put(entries, clock)
    epoch = await entries.epoch("team-a", deadline=soon())
    question = asked()
    await entries.put(ticket_for(question, epoch), entry_for(question, at_s=clock()), deadline=soon())
    assert await vectors_in(entries) == []
    ((_, last),) = await store.execute("XREVRANGE", Keys(SECRET, "team-a").changes, "+", "-", "COUNT", 1)
    named = ticket_for(question, None).entry_id
    assert changes.decode(last[1]) == changes.Removed(space(SECRET, question.partition, "f"), named)


async def test_a_walk_comes_by_every_vector_of_many_pages(entries: RedisEntries, clock: Clock) -> None:
    epoch = await entries.epoch("team-a", deadline=soon())
    texts = [asked(f"question {number}") for number in range(700)]
    for question in texts:
        ticket = replace(
            ticket_for(question, epoch),
            vector=np.eye(4, dtype=np.float32)[0],
            space=space(SECRET, question.partition, "f"),
        )
        await entries.put(ticket, entry_for(question, at_s=clock()), deadline=soon())
    assert set(await vectors_in(entries)) == {ticket_for(question, None).entry_id for question in texts}
