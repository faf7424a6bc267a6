"""Which version a request gets and which member of it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from backends import Member, NoBackend, UnknownModel, Version
from backends.choose import InFlight, Revision, Versions, two_choices

RNG = random.Random(7)


def members(*weights: float) -> list[Member]:
    return [Member(f"s{i}", f"http://s{i}", "m", "1", weight) for i, weight in enumerate(weights)]


def shares(weights: list[float], load: dict[str, int], draws: int = 2000) -> dict[str, float]:
    chosen = Counter(
        two_choices(members(*weights), load=lambda name: load.get(name, 0), rng=RNG)[0].name
        for _ in range(draws)
    )
    return {name: count / draws for name, count in chosen.items()}


def test_ties_are_shared_evenly() -> None:
    assert shares([1, 1], {}) == {"s0": pytest.approx(0.5, abs=0.05), "s1": pytest.approx(0.5, abs=0.05)}


def test_idle_members_share_by_weight() -> None:
    assert shares([3, 1], {})["s0"] == pytest.approx(0.75, abs=0.05)


def test_the_less_loaded_of_two_is_taken() -> None:
    assert shares([1, 1], {"s0": 1}) == {"s1": 1.0}


def test_load_counts_relative_to_weight() -> None:
    assert shares([4, 1], {"s0": 3, "s1": 1}) == {"s0": 1.0}


def test_the_most_loaded_of_many_is_never_taken() -> None:
    assert "s2" not in shares([1, 1, 1, 1], {"s2": 9})


def test_the_compared_members_and_their_scores_are_told() -> None:
    _, candidates = two_choices(members(1, 2), load={"s0": 1, "s1": 4}.__getitem__, rng=RNG)
    assert {c.member: c.score for c in candidates} == {"s0": 1.0, "s1": 2.0}


def test_a_lease_given_back_twice_counts_once() -> None:
    in_flight = InFlight()
    first, second = in_flight.take("s0"), in_flight.take("s0")
    first.release()
    first.release()
    assert in_flight["s0"] == 1
    second.release()
    assert in_flight["s0"] == 0


def versions(revisions: dict[str, Revision], weights: tuple[float, ...] = (1, 1)) -> Versions:
    return Versions({"m": members(*weights)}, revision_of=revisions.__getitem__)


def test_members_of_one_revision_are_one_version() -> None:
    table = versions({"s0": Revision("r"), "s1": Revision("r")})
    version = table.pick("m", sticky=None, rng=RNG)
    assert version == Version("m", "r")
    assert [member.name for member in table.members(version)] == ["s0", "s1"]


def test_versions_are_drawn_by_the_weight_of_their_members() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")}, (9, 1))
    drawn = Counter(table.pick("m", sticky=None, rng=RNG).revision for _ in range(2000))
    assert drawn["new"] / 2000 == pytest.approx(0.1, abs=0.03)


def test_a_sticky_text_keeps_its_version() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")})
    for user in map(str, range(50)):
        assert len({table.pick("m", sticky=user, rng=RNG) for _ in range(5)}) == 1


def test_sticky_texts_share_by_weight() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")}, (3, 1))
    drawn = Counter(table.pick("m", sticky=str(i), rng=RNG).revision for i in range(2000))
    assert drawn["old"] / 2000 == pytest.approx(0.75, abs=0.05)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownModel, match="'other'"):
        versions({"s0": Revision("r"), "s1": Revision("r")}).pick("other", sticky=None, rng=RNG)


def test_a_version_that_is_gone_has_no_members() -> None:
    with pytest.raises(NoBackend):
        versions({"s0": Revision("r"), "s1": Revision("r")}).members(Version("m", "older"))


UNKNOWN = [Revision(f"unknown-{i}", is_guessed=True, is_provisional=True) for i in range(2)]


def test_members_of_unknown_revision_are_never_one_version() -> None:
    table = versions({"s0": UNKNOWN[0], "s1": UNKNOWN[1]})
    drawn = {table.pick("m", sticky=None, rng=RNG) for _ in range(50)}
    assert len(drawn) == 2
    assert all(len(table.members(version)) == 1 for version in drawn)


def test_a_member_of_unknown_revision_is_not_chosen_beside_a_known_one() -> None:
    table = versions({"s0": UNKNOWN[0], "s1": Revision("r")})
    assert {table.pick("m", sticky=None, rng=RNG).revision for _ in range(50)} == {"r"}


def test_a_provisional_version_resolved_earlier_still_leads_to_its_member() -> None:
    revisions = {"s0": UNKNOWN[0], "s1": UNKNOWN[1]}
    table = versions(revisions)
    earlier = table.pick("m", sticky=None, rng=RNG)
    revisions.update(s0=Revision("r", is_guessed=True), s1=Revision("r", is_guessed=True))
    table.update()
    assert len(table.members(earlier)) == 1
    assert table.pick("m", sticky=None, rng=RNG) == Version("m", "r", is_guessed=True)
