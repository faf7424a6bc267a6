"""The choice of one member by each policy."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import pytest

from backends.choose import POLICIES, Field
from backends.choose.affinity import ranked
from backends.model import PolicyName

RNG = random.Random(7)


def field(
    loads: Sequence[float],
    weights: Sequence[float] | None = None,
    *,
    measured: Sequence[float] | None = None,
    turn: int = 0,
    prefix: str | None = None,
) -> Field:
    weights = weights or [1.0] * len(loads)
    names = [f"s{at}" for at in range(len(loads))]
    return Field(names, weights, measured or weights, loads.__getitem__, RNG, turn, prefix)


def shares(policy: PolicyName, loads: Sequence[float], weights: Sequence[float] | None = None) -> list[float]:
    drawn = Counter(POLICIES[policy](field(loads, weights, turn=turn)).at for turn in range(2000))
    return [drawn[at] / 2000 for at in range(len(loads))]


@pytest.mark.parametrize("policy", POLICIES)
def test_ties_are_shared_evenly(policy: PolicyName) -> None:
    assert shares(policy, [0, 0]) == pytest.approx([0.5, 0.5], abs=0.05)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_single_member_is_taken(policy: PolicyName) -> None:
    assert POLICIES[policy](field([3])).at == 0


@pytest.mark.parametrize("policy", ["least-load", "prefix", "random", "weighted"])
def test_idle_members_share_by_weight(policy: PolicyName) -> None:
    assert shares(policy, [0, 0], [3, 1]) == pytest.approx([0.75, 0.25], abs=0.05)


@pytest.mark.parametrize("policy", ["least-load", "p2c"])
def test_the_less_loaded_of_two_is_taken(policy: PolicyName) -> None:
    assert shares(policy, [1, 0]) == [0.0, 1.0]


@pytest.mark.parametrize("policy", ["least-load", "p2c"])
def test_load_counts_relative_to_weight(policy: PolicyName) -> None:
    assert shares(policy, [3, 1], [4, 1]) == [1.0, 0.0]


@pytest.mark.parametrize("policy", ["least-load", "p2c"])
def test_the_most_loaded_of_many_is_never_taken(policy: PolicyName) -> None:
    assert shares(policy, [1, 1, 9, 1])[2] == 0.0


def test_least_load_goes_by_what_was_measured_and_two_choices_by_what_was_configured() -> None:
    slow_first = field([2, 3], measured=[0.5, 2.0])
    assert POLICIES["least-load"](slow_first).at == 1
    assert POLICIES["p2c"](slow_first).at == 0


def test_the_compared_members_and_their_scores_are_told() -> None:
    assert dict(POLICIES["least-load"](field([1, 4], [1, 2])).scores) == {0: 1.0, 1: 2.0}


def test_turns_go_round() -> None:
    assert [POLICIES["round-robin"](field([9, 0, 5], turn=turn)).at for turn in range(6)] == [0, 1, 2] * 2


def test_weighted_turns_are_even_in_every_stretch() -> None:
    weights = [3.0, 1.0]
    visited = [POLICIES["weighted"](field([0, 0], weights, turn=turn)).at for turn in range(400)]
    for start in range(0, 380, 20):
        assert 4 <= sum(visited[start : start + 20]) <= 6


def test_requests_of_a_prefix_meet() -> None:
    for key in map(str, range(20)):
        assert len({POLICIES["prefix"](field([0, 0, 0], prefix=key)).at for _ in range(10)}) == 1


def test_prefixes_are_spread() -> None:
    homes = Counter(POLICIES["prefix"](field([0, 0, 0, 0], prefix=str(key))).at for key in range(400))
    assert min(homes.values()) > 60


def test_a_prefix_leaves_a_member_that_has_too_much_to_do() -> None:
    home, second = ranked("key", ["s0", "s1", "s2"])[:2]
    loads = [4.0, 4.0, 4.0]
    assert POLICIES["prefix"](field(loads, prefix="key")).at == home
    loads[home] = 9.0  # the mean is 5.7 now
    assert POLICIES["prefix"](field(loads, prefix="key")).at == second


def test_a_member_that_goes_moves_only_its_own_keys() -> None:
    names = ["a", "b", "c", "d"]
    for key in map(str, range(200)):
        before = names[ranked(key, names)[0]]
        left = [name for name in names if name != "d"]
        if before != "d":
            assert left[ranked(key, left)[0]] == before
