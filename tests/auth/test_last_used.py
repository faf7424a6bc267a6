"""When keys were last used is written in batches, at most once a minute for each."""

from __future__ import annotations

from collections.abc import Mapping

from auth import Authenticator, KeyRef, KeysUnavailable, LastUsed
from auth.testing import MemoryDirectory
from tests.auth.asking import Clock, added, whom
from tests.valkey import eventually


class Written:
    """What was noted, batch by batch."""

    def __init__(self) -> None:
        self.is_down = False
        self.batches: list[Mapping[str, float]] = []

    async def note_use(self, used_at_s: Mapping[str, float]) -> None:
        if self.is_down:
            raise KeysUnavailable("down")
        self.batches.append(used_at_s)


async def test_uses_of_a_minute_are_one_write() -> None:
    written, now, wall = Written(), Clock(), Clock()
    used = LastUsed(written, now=now, wall=wall)
    for second in range(130):
        now.now_s, wall.now_s = 100.0 + second, 5_000.0 + second
        used.note("a")
        if second == 30:
            used.note("b")
        await used.write()

    assert written.batches == [{"a": 5_000.0}, {"b": 5_030.0}, {"a": 5_060.0}, {"a": 5_120.0}]


async def test_uses_are_kept_while_the_store_is_down() -> None:
    written, wall = Written(), Clock()
    used = LastUsed(written, now=Clock(), wall=wall)
    written.is_down = True
    used.note("a")
    await used.write()
    used.note("b")
    written.is_down = False
    await used.write()

    assert written.batches == [{"a": 100.0, "b": 100.0}]


async def test_what_is_kept_is_bounded() -> None:
    written = Written()
    used = LastUsed(written, now=Clock(), wall=Clock())
    for number in range(25_000):
        used.note(f"key-{number}")
    await used.write()

    assert len(written.batches[0]) == 10_000


async def test_use_reaches_the_directory_without_being_asked() -> None:
    directory = MemoryDirectory()
    async with LastUsed.open(directory, every_s=0.01) as used:
        record, headers = await added(directory)
        await whom(Authenticator(directory, on_use=used.note), headers)
        await eventually(lambda: bool(directory.used_at_s))
    assert set(directory.used_at_s) == {record.key_id}


async def test_last_uses_are_written_at_the_end() -> None:
    directory = MemoryDirectory()
    record, _ = await added(directory)
    async with LastUsed.open(directory, every_s=3_600.0) as used:
        used.note(record.key_id)

    key = await directory.get(KeyRef(record.key_id))
    assert key is not None
    assert key.last_used_at_s is not None
