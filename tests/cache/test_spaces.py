"""The indexes of a process: bounded in all, in the order of use, and only for what was written and has not expired."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import numpy as np
import pytest

from cache import FrozenSpace, Plan, Spaces
from cache.model import Vector
from tests.cache.parts import Clock
from tests.valkey import eventually

A, B, C = (bytes([n]) * 32 for n in (1, 2, 3))
DIMENSION = 8
ONE = Plan().bytes_of(DIMENSION, is_few=True)
SPACE = 700


def vector(number: int) -> Vector:
    unit: Vector = np.eye(DIMENSION, dtype=np.float32)[number % DIMENSION]
    return unit


@dataclass
class House:
    spaces: Spaces
    clock: Clock

    def add(self, space: bytes, *ids: int, ttl_s: float = 60.0) -> None:
        for entry_id in ids:
            self.spaces.add(space, entry_id, vector(entry_id), expires_at_s=self.clock() + ttl_s)

    def ids(self, space: bytes) -> list[int]:
        found = self.spaces.find(space)
        return [] if found is None else sorted(entry_id for entry_id, _ in found.search(vector(0)))


@pytest.fixture
def house() -> House:
    clock = Clock()
    return House(Spaces(most_bytes=2 * SPACE + 4 * ONE, wall=clock), clock)


def test_a_space_never_written_is_absent(house: House) -> None:
    assert house.spaces.find(A) is None


def test_spaces_do_not_see_each_other(house: House) -> None:
    house.add(A, 1)
    house.add(B, 2)
    assert (house.ids(A), house.ids(B)) == ([1], [2])


def test_adding_what_is_known_changes_nothing_but_its_time(house: House) -> None:
    house.add(A, 1, ttl_s=10)
    house.add(A, 1, ttl_s=100)
    assert len(house.spaces) == 1
    house.clock.at_s += 50
    assert house.ids(A) == [1]


def test_an_emptied_space_is_gone(house: House) -> None:
    house.add(A, 1)
    house.spaces.remove(A, 1)
    house.spaces.remove(A, 1)
    assert house.spaces.find(A) is None
    assert len(house.spaces) == 0
    assert house.spaces.state().bytes == 0


def test_changes_show_in_the_next_search(house: House) -> None:
    house.add(A, 1, 2)
    assert house.ids(A) == [1, 2]
    house.spaces.remove(A, 1)
    house.add(A, 3)
    assert house.ids(A) == [2, 3]


def test_what_has_expired_is_not_found_from_that_moment_on(house: House) -> None:
    house.add(A, 1, ttl_s=10)
    house.add(A, 2, ttl_s=20)
    house.clock.at_s += 9.9
    assert house.ids(A) == [1, 2]
    house.clock.at_s += 0.1
    assert house.ids(A) == [2]


def test_what_has_expired_leaves_by_itself(house: House) -> None:
    house.add(A, 1, 2, ttl_s=10)
    house.clock.at_s += 60
    house.spaces.find(B)
    assert len(house.spaces) == 0


def test_what_has_expired_already_does_not_come_in(house: House) -> None:
    house.add(A, 1, ttl_s=0)
    assert len(house.spaces) == 0


def test_the_live_are_found_behind_any_number_of_expired_ones() -> None:
    clock = Clock()
    house = House(Spaces(Plan(few=4), wall=clock), clock)
    house.add(A, *range(0, 800, 8), ttl_s=1)  # all of them nearer than the next
    house.add(A, 801)
    clock.at_s += 1
    assert house.ids(A) == [801]


def test_over_the_bound_the_space_unused_for_longest_goes(house: House) -> None:
    for number in (1, 2):
        house.add(A, number)
        house.add(B, number)
    house.spaces.find(A)
    house.add(C, 1)
    assert (house.ids(A), house.ids(B), house.ids(C)) == ([1, 2], [], [1])
    assert len(house.spaces) == 3


def test_a_lone_space_over_the_bound_lets_its_oldest_go(house: House) -> None:
    for number in range(20):
        house.add(A, number)
    state = house.spaces.state()
    assert state.bytes <= 2 * SPACE + 4 * ONE < state.bytes + ONE
    assert house.ids(A) == list(range(20 - len(house.spaces), 20))


def test_a_space_written_to_and_never_searched_does_not_grow_without_end() -> None:
    clock = Clock()
    most = SPACE + 100 * Plan().bytes_of(DIMENSION, is_few=False)
    house = House(Spaces(most_bytes=most, wall=clock), clock)
    house.add(A, *range(5_000))
    assert len(house.spaces) == 100
    assert asyncio.run(house.spaces.settle())
    assert house.spaces.state().waiting == 0
    assert len(house.ids(A)) == 8
    house.spaces.close()


def test_a_space_that_had_to_go_comes_back_when_it_is_asked_for(house: House) -> None:
    @dataclass(frozen=True)
    class Kept:
        entry_id: int
        vector: Vector
        expires_at_s: float

    asked: list[bytes] = []

    async def load(space: bytes) -> list[Kept]:
        asked.append(space)
        return [Kept(number, vector(number), house.clock() + 60) for number in (1, 2)]

    async def ask() -> None:
        reloading = asyncio.create_task(house.spaces.reload(load))
        assert house.ids(A) == []
        assert house.ids(C) == [1]
        await eventually(lambda: bool(house.ids(A)))
        reloading.cancel()

    house.add(A, 1, 2)
    house.add(B, 1)
    house.add(C, 1)
    asyncio.run(ask())
    assert (asked, house.ids(A)) == ([A], [1, 2])
    assert house.spaces.state().reloaded == 1


def test_a_namespace_is_dropped_by_the_tag_its_spaces_begin_with(house: House) -> None:
    house.add(A, 1)
    house.add(B, 2)
    house.spaces.drop_namespace(A[:8])
    assert (house.ids(A), house.ids(B), len(house.spaces)) == ([], [2], 1)


def test_what_an_index_did_is_remembered_when_it_is_gone() -> None:
    clock = Clock()
    house = House(Spaces(Plan(few=4, flat=20), wall=clock), clock)
    house.add(A, *range(30))
    assert asyncio.run(house.spaces.settle())
    house.spaces.drop_namespace(A[:8])
    assert asyncio.run(house.spaces.settle())
    state = house.spaces.state()
    assert (state.rebuilds, state.indexes, state.vectors, state.bytes) == (1, 0, 0, 0)
    house.spaces.close()


def test_an_entry_can_be_removed_by_its_namespace_alone(house: House) -> None:
    house.add(A, 1)
    house.add(B, 1)
    house.spaces.remove_from_namespace(A[:8], 1)
    assert (house.ids(A), house.ids(B)) == ([], [1])


def test_a_vector_of_another_size_neither_comes_in_nor_finds_anything(house: House) -> None:
    house.add(A, 1)
    house.spaces.add(A, 2, np.ones(3, dtype=np.float32), expires_at_s=house.clock() + 60)
    found = house.spaces.find(A)
    assert found is not None
    assert found.search(np.ones(3, dtype=np.float32)) == []
    assert house.ids(A) == [1]


@pytest.mark.parametrize("count", [3, 200])
def test_a_frozen_space_gives_the_same_verdicts_when_thawed(count: int) -> None:
    clock = Clock()
    dice = np.random.default_rng(1)
    before, after = Spaces(wall=clock), Spaces(wall=clock)
    for number in range(count):
        row = dice.standard_normal(DIMENSION).astype(np.float32)
        before.add(A, number, row / np.linalg.norm(row), expires_at_s=clock() + 10 + number)
    space = before.find(A)
    assert space is not None
    asked = space.search(vector(0))
    frozen: FrozenSpace = space.freeze()
    assert len(frozen) == count
    after.thaw(frozen)
    assert asyncio.run(after.settle())
    thawed = after.find(A)
    assert thawed is not None
    assert thawed.search(vector(0)) == asked
    clock.at_s += 10 + count - 1.5  # all but one have expired meanwhile
    late = Spaces(wall=clock)
    late.thaw(frozen)
    assert len(late) == 1
    for each in (before, after, late):
        each.close()
