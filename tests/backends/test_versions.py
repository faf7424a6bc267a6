"""Which version a request gets."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from backends import Member, NoBackend, Pool, UnknownModel, Version
from backends.choose import Revision, Versions

RNG = random.Random(7)


def members(*weights: float) -> list[Member]:
    return [Member(f"s{i}", f"http://s{i}", "m", "1", weight) for i, weight in enumerate(weights)]


def anybody(_: object) -> bool:
    return True


def versions(revisions: dict[str, Revision], weights: tuple[float, ...] = (1, 1)) -> Versions:
    return Versions({"m": Pool(tuple(members(*weights)))}, revision_of=revisions.__getitem__)


def test_members_of_one_revision_are_one_version() -> None:
    table = versions({"s0": Revision("r"), "s1": Revision("r")})
    version = table.pick("m", sticky=None, rng=RNG, is_usable=anybody)
    assert version == Version("m", "r")
    assert [member.name for member in table.members(version)] == ["s0", "s1"]


def test_versions_are_drawn_by_the_weight_of_their_members() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")}, (9, 1))
    drawn = Counter(table.pick("m", sticky=None, rng=RNG, is_usable=anybody).revision for _ in range(2000))
    assert drawn["new"] / 2000 == pytest.approx(0.1, abs=0.03)


def test_a_sticky_text_keeps_its_version() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")})
    for user in map(str, range(50)):
        assert len({table.pick("m", sticky=user, rng=RNG, is_usable=anybody) for _ in range(5)}) == 1


def test_sticky_texts_share_by_weight() -> None:
    table = versions({"s0": Revision("old"), "s1": Revision("new")}, (3, 1))
    drawn = Counter(table.pick("m", sticky=str(i), rng=RNG, is_usable=anybody).revision for i in range(2000))
    assert drawn["old"] / 2000 == pytest.approx(0.75, abs=0.05)


def test_an_unknown_model_is_refused() -> None:
    with pytest.raises(UnknownModel, match="'other'"):
        versions({"s0": Revision("r"), "s1": Revision("r")}).pick(
            "other", sticky=None, rng=RNG, is_usable=anybody
        )


def test_a_version_that_is_gone_has_no_members() -> None:
    with pytest.raises(NoBackend):
        versions({"s0": Revision("r"), "s1": Revision("r")}).members(Version("m", "older"))


UNKNOWN = [Revision(f"unknown-{i}", is_guessed=True, is_provisional=True) for i in range(2)]


def test_members_of_unknown_revision_are_never_one_version() -> None:
    table = versions({"s0": UNKNOWN[0], "s1": UNKNOWN[1]})
    drawn = {table.pick("m", sticky=None, rng=RNG, is_usable=anybody) for _ in range(50)}
    assert len(drawn) == 2
    assert all(len(table.members(version)) == 1 for version in drawn)


def test_a_member_of_unknown_revision_is_not_chosen_beside_a_known_one() -> None:
    table = versions({"s0": UNKNOWN[0], "s1": Revision("r")})
    assert {table.pick("m", sticky=None, rng=RNG, is_usable=anybody).revision for _ in range(50)} == {"r"}


def test_a_provisional_version_resolved_earlier_still_leads_to_its_member() -> None:
    revisions = {"s0": UNKNOWN[0], "s1": UNKNOWN[1]}
    table = versions(revisions)
    earlier = table.pick("m", sticky=None, rng=RNG, is_usable=anybody)
    revisions.update(s0=Revision("r", is_guessed=True), s1=Revision("r", is_guessed=True))
    table.update({"m": Pool(tuple(members(1, 1)))})
    assert len(table.members(earlier)) == 1
    assert table.pick("m", sticky=None, rng=RNG, is_usable=anybody) == Version("m", "r", is_guessed=True)
