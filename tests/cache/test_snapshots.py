"""Restarts from a snapshot: what was there is there again, what happened meanwhile is caught up, and no more."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cache import AesGcmSeal, Hit, Miss, Snapshots
from cache.identity import SHARDS
from cache.index import Plan
from cache.replica.sealed_blocks import SnapshotRefused
from cache.replica.snapshot_file import Snapshot, read
from cache.testing import HashEmbedder
from tests.cache.parts import Clock, connected
from tests.cache.workers import SIMILAR, TEXT, owner_of, worker
from tests.valkey import Valkey, eventually, running_valkey

FROM_STORE = {"start": SHARDS}


@pytest.fixture
async def server() -> AsyncIterator[Valkey]:
    async with running_valkey() as running:
        yield running


async def test_a_restart_from_a_snapshot_gives_the_same_verdicts_without_asking_the_store(
    server: Valkey, tmp_path: Path
) -> None:
    """With an index drawn in clusters, which is not drawn again."""
    plan = Plan(few=8, flat=100)
    asked = [f"reset my password for the shop{number} how do i do" for number in range(150)]
    asked += [f"what is {number} times {number}" for number in range(20)]
    async with worker(server, folder=tmp_path, plan=plan) as before:
        for number in range(300):
            await before.teach(f"how do i reset my password for the shop{number}")
        assert await before.spaces.settle()
        assert before.spaces.state().clustered == 1
        expected = [await before.ask(text) for text in asked]
    async with worker(server, folder=tmp_path, plan=plan) as after:
        assert after.follower.rebuilds == {}
        assert after.follower.applied == 0
        assert after.spaces.state().clustered == 1
        assert after.spaces.state().rebuilds == 0
        found = [await after.ask(text) for text in asked]
    assert {type(each) for each in expected} == {Hit, Miss}
    for one, other in zip(expected, found, strict=True):
        assert type(one) is type(other)
        assert one.verdict == other.verdict
        assert one.similarity == other.similarity
        if isinstance(one, Hit) and isinstance(other, Hit):
            assert one.entry == other.entry


async def test_what_happened_meanwhile_is_caught_up(server: Valkey, tmp_path: Path) -> None:
    clock = Clock()
    async with worker(server, clock=clock) as other:
        async with worker(server, folder=tmp_path, clock=clock) as before:
            kept = await before.teach(TEXT)
            removed = await before.teach("this one is removed meanwhile")
            await before.teach("flushed with its namespace", namespace="team-b")
        await other.cache.forget("team-a", removed)
        added = await other.teach("this one is added meanwhile")
        await other.cache.flush("team-b")
        async with worker(server, folder=tmp_path, clock=clock) as after:
            assert sorted(after.ids) == sorted([kept, added])
            assert after.follower.rebuilds == {}
            assert after.follower.applied == 3
            assert await after.finds(SIMILAR)


async def test_what_has_expired_meanwhile_does_not_come_back(server: Valkey, tmp_path: Path) -> None:
    clock = Clock()
    async with worker(server, folder=tmp_path, clock=clock) as before:
        await before.teach(TEXT)
    clock.at_s += 61.0
    async with worker(server, folder=tmp_path, clock=clock) as after:
        assert after.ids == []


@pytest.mark.parametrize("harm", ["cut", "changed", "garbage", "removed"])
async def test_one_that_cannot_be_believed_is_not_and_the_store_is_asked(
    server: Valkey, tmp_path: Path, harm: str
) -> None:
    async with worker(server, folder=tmp_path) as before:
        await before.teach(TEXT)
    path = tmp_path / "index.snapshot"
    content = path.read_bytes()
    match harm:
        case "cut":
            path.write_bytes(content[:-20])
        case "changed":
            path.write_bytes(content[:-20] + bytes(20))
        case "garbage":
            path.write_bytes(b"\x80\x04\x95 not a snapshot")
        case "removed":
            path.unlink()
    async with worker(server, folder=tmp_path) as after:
        assert after.follower.rebuilds == FROM_STORE
        assert await after.finds(SIMILAR)
    assert isinstance(read(path, owner_of()), Snapshot)  # and the next is good again


async def test_one_of_another_model_stays_aside(server: Valkey, tmp_path: Path) -> None:
    async with worker(server, folder=tmp_path) as before:
        await before.teach(TEXT)
    async with worker(server, folder=tmp_path, embedder=HashEmbedder(dimension=32)) as after:
        assert after.ids == []
        assert after.follower.rebuilds == FROM_STORE
        await after.teach("another text by the other model")
        assert await after.finds("by the other model another text")


async def test_one_of_a_store_that_is_empty_now_brings_nothing_back(server: Valkey, tmp_path: Path) -> None:
    async with worker(server, folder=tmp_path) as before, connected(server) as store:
        await before.teach(TEXT)
        await before.unfollow()
        await store.execute("FLUSHALL")
    async with worker(server, folder=tmp_path) as after:
        assert after.ids == []
        assert after.follower.rebuilds["reset"] == 1


async def test_one_older_than_the_trimmed_stream_is_made_good_from_the_store(
    server: Valkey, tmp_path: Path
) -> None:
    async with worker(server, folder=tmp_path) as before:
        await before.teach(TEXT)
        removed = await before.teach("this one is removed meanwhile")
    async with worker(server) as other, connected(server) as store:
        await other.cache.forget("team-a", removed)
        for number in range(50):
            await other.teach(f"number {number} of many")
        await store.execute("XTRIM", other.stream, "MAXLEN", 10)
        async with worker(server, folder=tmp_path) as after:
            assert after.follower.rebuilds == {"behind": 1}
            assert sorted(after.ids) == sorted(other.ids)


async def test_sealed_entries_have_a_sealed_snapshot(server: Valkey, tmp_path: Path) -> None:
    seal = AesGcmSeal([b"k" * 32])
    async with worker(server, folder=tmp_path, seal=seal) as before:
        await before.teach(TEXT)
    assert HashEmbedder().embed(TEXT).tobytes() not in (tmp_path / "index.snapshot").read_bytes()
    async with worker(server, folder=tmp_path, seal=seal) as after:
        assert after.follower.rebuilds == {}
        assert await after.finds(SIMILAR)


async def test_one_process_of_a_host_writes_and_another_takes_its_place(
    server: Valkey, tmp_path: Path
) -> None:
    path = tmp_path / "index.snapshot"
    async with worker(server, folder=tmp_path, every_s=0.05) as other:
        async with worker(server, folder=tmp_path, every_s=0.05) as one:
            await one.teach(TEXT)
            await eventually(lambda: len(other.ids) == 1)
            await eventually(lambda: holds(path, 1))
        path.unlink()
        await other.teach("something new to write down")
        await eventually(lambda: holds(path, 2))


async def test_where_it_cannot_be_written_work_goes_on(server: Valkey, tmp_path: Path) -> None:
    told: list[str] = []
    in_the_way = tmp_path / "a file"
    in_the_way.write_text("not a folder")
    async with worker(server) as one:
        snapshots = Snapshots(in_the_way / "folder", owner_of(), every_s=0.01, told=told.append)
        with pytest.raises(SnapshotRefused, match="unreadable"):
            await snapshots.read()
        async with snapshots.kept(one.spaces, one.follower):
            await one.teach(TEXT)
            await eventually(lambda: len(told) > 2)
        assert await one.finds(SIMILAR)
    assert set(told) == {"NotADirectoryError"}


def holds(path: Path, vectors: int) -> bool:
    return path.exists() and sum(map(len, read(path, owner_of()).spaces)) == vectors
