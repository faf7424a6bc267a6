"""The choice of a member: the less loaded of two drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from ..model import Candidate, Member


def two_choices(
    members: Sequence[Member], *, load: Callable[[str], int], rng: random.Random
) -> tuple[Member, tuple[Candidate, ...]]:
    """The member chosen, and who was compared.

    Draws two different members in proportion to their weights and takes the one with less load over weight. Equal
    scores go to the first drawn, so that idle members share by weight. Two random choices rather than the least
    of all, so that workers which do not see each other's requests do not all run to the same member.
    """
    drawn = _draw_two(members, rng)
    candidates = tuple(Candidate(member.name, load(member.name) / member.weight) for member in drawn)
    best = min(range(len(drawn)), key=lambda i: candidates[i].score)
    return drawn[best], candidates


def _draw_two(members: Sequence[Member], rng: random.Random) -> list[Member]:
    if len(members) == 1:
        return [members[0]]
    first = _draw(members, rng)
    return [first, _draw([member for member in members if member is not first], rng)]


def _draw(members: Sequence[Member], rng: random.Random) -> Member:
    point = rng.random() * sum(member.weight for member in members)
    for member in members:
        point -= member.weight
        if point < 0:
            return member
    return members[-1]  # rounding
