"""How soon one process's answers are found by others, and how soon a process is back: `make bench NAME=sharing`.

Three processes follow one real Valkey. One stores; the two others ask a similar question until they hit. First one at a
time, then while a thousand answers a second are stored. Then a process starts with N entries (N=100000) in one space:
from the store, from a snapshot, and with a snapshot older than the last thousand changes. Prints a table and, as its
last line, one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from cache import Answer, Entry, Partition, Question, RedisEntries, Snapshots, Ticket, identity
from cache.model import Vector
from cache.testing import HashEmbedder
from tests.cache.parts import ANSWER, SECRET, connected
from tests.cache.workers import Worker, owner_of, worker
from tests.valkey import Valkey, running_valkey

ENTRIES = int(os.environ.get("N", "100000"))
SAMPLES = 200
RATE, LOAD_S = 1_000, 10.0
DIMENSION = 384
QUERIES = 1_000


@dataclass(frozen=True)
class Address:
    """What a worker needs of a server that another process started."""

    url: str


def taught(number: int) -> str:
    return f"how do i reset my password for the shop{number}"


def alike(number: int) -> str:
    return f"reset my password for the shop{number} how do i do"


# --- sharing


def reader(url: str, pipe: Connection) -> None:
    """Told a number, says when it hit and how far behind it was by its own account; told None, it ends."""
    asyncio.run(_read(Address(url), pipe))


async def _read(address: Address, pipe: Connection) -> None:
    async with worker(address, embedder=HashEmbedder(dimension=DIMENSION)) as one:
        pipe.send("ready")
        while (number := await asyncio.to_thread(pipe.recv)) is not None:
            while not await one.finds(alike(number)):  # noqa: ASYNC110 - it is the asking that takes time
                await asyncio.sleep(0.0005)
            pipe.send((time.monotonic(), one.follower.items_behind))


async def delays(one: Worker, pipes: Sequence[Connection], numbers: range) -> tuple[list[float], list[int]]:
    """Milliseconds from stored here to a hit there, and items behind."""
    found, behind = [], []
    for number in numbers:
        await one.teach(taught(number))
        stored = time.monotonic()
        for pipe in pipes:
            pipe.send(number)
        for pipe in pipes:
            hit, items = await asyncio.to_thread(pipe.recv)
            found.append(max(0.0, hit - stored) * 1e3)
            behind.append(items)
    return found, behind


async def load(store: RedisEntries, *, rate: float, seconds: float) -> float:
    """Stores at that rate for a while; the rate that came of it."""
    dice, began, count = np.random.default_rng(1), time.monotonic(), 0
    under_way: set[asyncio.Task[None]] = set()
    partition = identity.partition(SECRET, "load/default/m", b"load")
    space, epoch = await _space(store, partition)
    while (passed := time.monotonic() - began) < seconds:
        while count < rate * passed and len(under_way) < 256:
            task = asyncio.create_task(_put(store, partition, space, epoch, count, _unit(dice)))
            under_way.add(task)
            task.add_done_callback(under_way.discard)
            count += 1
        await asyncio.sleep(0.001)
    await asyncio.gather(*under_way)
    return count / (time.monotonic() - began)


async def share() -> dict[str, Any]:
    spawned = multiprocessing.get_context("spawn")
    async with running_valkey() as valkey:
        pipes, processes = [], []
        for _ in range(2):
            here, there = spawned.Pipe()
            process = spawned.Process(target=reader, args=(valkey.url, there), daemon=True)
            process.start()
            pipes.append(here)
            processes.append(process)
        for pipe in pipes:
            await asyncio.to_thread(pipe.recv)
        async with worker(valkey, embedder=HashEmbedder(dimension=DIMENSION)) as one:
            quiet, _ = await delays(one, pipes, range(SAMPLES))
            async with connected(valkey) as store:
                entries = RedisEntries(store, secret=SECRET)
                loading = asyncio.create_task(load(entries, rate=RATE, seconds=LOAD_S))
                busy: list[float] = []
                behind: list[int] = []
                at = SAMPLES
                while not loading.done():
                    some, items = await delays(one, pipes, range(at, at + 1))
                    busy, behind, at = busy + some, behind + items, at + 1
                stores_per_s = await loading
        for pipe, process in zip(pipes, processes, strict=True):
            pipe.send(None)
            await asyncio.to_thread(process.join)
    return {
        "delay_ms": _spread(quiet),
        "stores_per_s": round(stores_per_s),
        "delay_under_load_ms": _spread(busy),
        "most_items_behind": max(behind),
    }


# --- starting


async def start() -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="eg-") as folder:
        async with running_valkey() as valkey:
            partition = await _fill(valkey)
            queries = [_unit(np.random.default_rng(seed)) for seed in range(QUERIES)]
            path = Path(folder)
            async with timed(valkey, None) as (from_store, one):
                expected = _answers(one, partition, queries)
                assert len(one.spaces) == ENTRIES
                written_s = await _write(one, path)
            size = (path / "index.snapshot").stat().st_size
            async with timed(valkey, path) as (from_snapshot, one):
                assert not one.follower.rebuilds
                is_same = _answers(one, partition, queries) == expected
            async with connected(valkey) as store:
                await load(RedisEntries(store, secret=SECRET), rate=RATE, seconds=1.0)
            async with timed(valkey, path) as (with_tail, one):
                caught_up = one.follower.applied
        return {
            "entries": ENTRIES,
            "from_store_s": _seconds(from_store),
            "snapshot_written_s": round(written_s, 2),
            "snapshot_mb": round(size / 1e6, 1),
            "from_snapshot_s": _seconds(from_snapshot),
            "from_snapshot_and_tail_s": _seconds(with_tail),
            "tail_items": caught_up,
            "same_verdicts": is_same,
        }


@asynccontextmanager
async def timed(valkey: Valkey, folder: Path | None) -> AsyncIterator[tuple[list[float], Worker]]:
    """A process's cache, and the seconds until it was caught up with the store, and its index drawn in clusters."""
    began, seconds = time.monotonic(), [0.0, 0.0]

    def caught_up() -> None:
        seconds[0] = time.monotonic() - began

    embedder = HashEmbedder(dimension=DIMENSION)
    async with worker(valkey, embedder=embedder, folder=folder, within_s=120, caught_up=caught_up) as one:
        seconds[1] = time.monotonic() - began
        yield seconds, one


async def _write(one: Worker, folder: Path) -> float:
    """The seconds that a snapshot takes, beside other work."""
    told: asyncio.Queue[str] = asyncio.Queue()
    owner = owner_of(HashEmbedder(dimension=DIMENSION))
    began = time.monotonic()
    async with Snapshots(folder, owner, every_s=0.001, told=told.put_nowait).kept(one.spaces, one.follower):
        assert await told.get() == "written"
        return time.monotonic() - began


async def _fill(valkey: Valkey) -> Partition:
    partition = identity.partition(SECRET, "team/default/m", b"model=m")
    dice = np.random.default_rng(0)
    topics = dice.standard_normal((max(1, ENTRIES // 200), DIMENSION)).astype(np.float32)
    async with connected(valkey, silence_s=30.0) as store:
        entries = RedisEntries(store, secret=SECRET)
        space, epoch = await _space(entries, partition)
        for begin in range(0, ENTRIES, 500):
            await asyncio.gather(
                *(
                    _put(
                        entries,
                        partition,
                        space,
                        epoch,
                        number,
                        _unit(dice, near=topics[number % len(topics)]),
                    )
                    for number in range(begin, min(begin + 500, ENTRIES))
                )
            )
    return partition


async def _space(entries: RedisEntries, partition: Partition) -> tuple[bytes, bytes]:
    found = await entries.find(Question(partition, "any"), 1, deadline=time.monotonic() + 5)
    assert found.epoch is not None
    fingerprint = HashEmbedder(dimension=DIMENSION).fingerprint
    return identity.space(SECRET, partition, fingerprint), found.epoch


async def _put(
    entries: RedisEntries, partition: Partition, space: bytes, epoch: bytes, number: int, vector: Vector
) -> None:
    question = Question(partition, f"question {number} of {partition.namespace}")
    entry_id = identity.entry_id(SECRET, partition, question.text)
    now = time.time()
    entry = Entry(entry_id, question.text, Answer(ANSWER.text, ANSWER.payload), now, now + 86_400)
    ticket = Ticket(question, entry_id, epoch, vector=vector, space=space)
    outcome = await entries.put(ticket, entry, deadline=time.monotonic() + 30)
    assert outcome == "stored", outcome


def _answers(one: Worker, partition: Partition, queries: Sequence[Vector]) -> list[list[tuple[int, float]]]:
    fingerprint = HashEmbedder(dimension=DIMENSION).fingerprint
    space = one.spaces.find(identity.space(SECRET, partition, fingerprint))
    assert space is not None
    return [list(space.search(query)) for query in queries]


def _unit(dice: np.random.Generator, *, near: Vector | None = None) -> Vector:
    raw = dice.standard_normal(DIMENSION).astype(np.float32)
    if near is not None:
        raw = near + 0.5 * raw
    unit: Vector = raw / np.linalg.norm(raw)
    return unit


def _spread(values: Sequence[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "n": len(ordered),
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[int(0.99 * (len(ordered) - 1))], 2),
        "max": round(ordered[-1], 2),
    }


def _seconds(timed: list[float]) -> dict[str, float]:
    return {"caught_up": round(timed[0], 2), "index_drawn": round(timed[1], 2)}


def main() -> None:
    facts = {"bench": "sharing", **asyncio.run(share()), **asyncio.run(start())}
    for name, value in facts.items():
        print(f"{name:26} {value}")
    print(json.dumps(facts))


if __name__ == "__main__":
    main()
