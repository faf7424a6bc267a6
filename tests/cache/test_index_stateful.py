"""Whatever is done to a space, in whatever order: it says what comparing with everything would say, and no wrong id."""

from __future__ import annotations

import asyncio

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cache import FrozenSpace, Plan, Space, Spaces
from cache.index.plan import Storage
from cache.model import Vector
from tests.cache.parts import Clock

DIMENSION = 64
NAME = bytes(range(32))
OTHER = bytes(32)
THRESHOLD = 0.9
CLOSE = 1e-4

ids = st.integers(0, 150)


def vector(seed: int, *, near: int | None = None) -> Vector:
    dice = np.random.default_rng(seed)
    raw = dice.standard_normal(DIMENSION)
    if near is not None:
        raw = vector(near) + 0.03 * raw  # a cosine of about 0.97
    unit: Vector = (raw / np.linalg.norm(raw)).astype(np.float32)
    return unit


class ASpace(RuleBasedStateMachine):
    """Recall is 1 here, so that a search looks into all clusters and nothing is left to chance. All else is as ever,
    but for the sizes: clusters are drawn behind the steps below, anew each time the space has grown by a half."""

    @initialize(storage=st.sampled_from(["float32", "float16", "int8"]))
    def begin(self, storage: Storage) -> None:
        self.clock = Clock()
        self.plan = Plan(storage=storage, few=6, flat=20, recall=1.0, growth=1)
        self.spaces = self.opened()
        self.model: dict[int, tuple[Vector, float]] = {}

    def opened(self) -> Spaces:
        return Spaces(self.plan, wall=self.clock)

    @rule(entry_id=ids, ttl_s=st.sampled_from([5.0, 50.0, 500.0]))
    def add(self, entry_id: int, ttl_s: float) -> None:
        expires_at_s = self.clock() + ttl_s
        self.spaces.add(NAME, entry_id, vector(entry_id), expires_at_s=expires_at_s)
        self.spaces.add(OTHER, 1_000 + entry_id, vector(entry_id), expires_at_s=expires_at_s)
        self.model[entry_id] = vector(entry_id), expires_at_s

    @rule(first=ids, count=st.integers(1, 60))
    def add_many(self, first: int, count: int) -> None:
        for entry_id in range(first, first + count):
            self.add(entry_id, 500.0)

    @rule(entry_id=ids)
    def remove(self, entry_id: int) -> None:
        self.spaces.remove(NAME, entry_id)
        self.model.pop(entry_id, None)

    @rule(first=ids, count=st.integers(1, 60))
    def remove_many(self, first: int, count: int) -> None:
        for entry_id in range(first, first + count):
            self.remove(entry_id)

    @rule(seconds=st.sampled_from([1.0, 4.0, 20.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.clock.at_s += seconds

    @rule(near=ids)
    def search(self, near: int) -> None:
        for asked in (vector(near), vector(near + 10_000, near=near), vector(near + 20_000)):
            self.check(asked)

    @rule()
    def settle(self) -> None:
        assert asyncio.run(self.spaces.settle())

    @rule()
    def restart_from_a_snapshot(self) -> None:
        frozen: list[FrozenSpace] = [space.freeze() for space in self.spaces]
        self.spaces.close()
        self.spaces = self.opened()
        for each in frozen:
            self.spaces.thaw(each)
        assert asyncio.run(self.spaces.settle())

    @precondition(lambda self: len(self.model) > 20)
    @rule()
    def flush(self) -> None:
        self.spaces.drop_namespace(NAME[:8])
        self.model.clear()

    @invariant()
    def only_what_is_there_is_counted(self) -> None:
        found = self.spaces.find(NAME)
        known = set() if found is None else set(found.ids)
        assert known >= set(self.alive())
        assert self.spaces.state().failures == 0

    def alive(self) -> dict[int, Vector]:
        now = self.clock()
        return {each: kept for each, (kept, expires_at_s) in self.model.items() if expires_at_s > now}

    def check(self, asked: Vector) -> None:
        found = self.spaces.find(NAME)
        pairs = [] if found is None else found.search(asked)
        alive = self.alive()
        expected = sorted((float(kept @ asked) for kept in alive.values()), reverse=True)[:8]
        assert len(pairs) == len(expected)
        assert np.allclose([cosine for _, cosine in pairs], expected, atol=CLOSE)
        for entry_id, cosine in pairs:
            assert abs(cosine - float(alive[entry_id] @ asked)) < CLOSE
        accepted = {each for each, kept in alive.items() if float(kept @ asked) > THRESHOLD}
        assert {entry_id for entry_id, cosine in pairs if cosine > THRESHOLD} == accepted

    def teardown(self) -> None:
        if hasattr(self, "spaces"):
            self.spaces.close()


ASpace.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_a_space_agrees_with_comparing_everything = ASpace.TestCase


def test_clusters_are_reached_by_these_sizes() -> None:
    """Else the above would show little."""
    machine = ASpace()
    machine.begin("float32")
    machine.add_many(0, 60)
    machine.settle()
    space: Space | None = machine.spaces.find(NAME)
    assert space is not None
    assert space.index is not None
    assert space.index.clusters > 1
    assert space.index.probes == space.index.clusters
    machine.search(7)
    machine.teardown()
