"""Who may be asked now, given how each member stands: the first tier with someone in it, and never too few of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from ..model import Member

Standing = Literal["in", "ejected", "unreached"]


def usable(members: Sequence[Member], *, standing: Callable[[Member], Standing]) -> Sequence[Member]:
    """Members to choose from; empty only if `members` is.

    A member that failed is left out, but never more than half of those that can be reached at all: beyond that it
    is likelier that something else is wrong, and the others would break under what they are left with, so all are in.
    A lower tier is asked when nobody of the tiers above is in. Where nobody is in anywhere, the uppermost tier that
    can be reached is tried nonetheless, and if there is none, everybody of the first.
    """
    stands = [standing(member) for member in members]
    if all(stand == "in" for stand in stands) and len({member.tier for member in members}) <= 1:
        return members
    tiers = [
        [(member, stand) for member, stand in zip(members, stands, strict=True) if member.tier == tier]
        for tier in sorted({member.tier for member in members})
    ]
    for tier in tiers:
        inside = [member for member, stand in tier if stand == "in"]
        reached = [member for member, stand in tier if stand != "unreached"]
        if inside:
            return inside if 2 * len(inside) >= len(reached) else reached
    for tier in tiers:
        if reached := [member for member, stand in tier if stand != "unreached"]:
            return reached
    return [member for member, _ in tiers[0]] if tiers else []
