"""Who may be asked now, given how each member stands: the first tier with someone in it, and never too few of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

# "warming": new, and not to be given more before it has answered once.
Standing = Literal["in", "ejected", "warming", "unreached"]


def usable(tiers: Sequence[int], stands: Sequence[Standing]) -> list[int]:
    """Positions of the members to choose from, given the tier and the standing of each; empty only if there are none.

    A member that failed is ejected, but never more than half of those that work or failed: beyond that it is likelier
    that something else is wrong, and the others would break under what they are left with, so all of these are in.
    A lower tier is asked when nobody of the tiers above is in. Where nobody is in anywhere, the uppermost tier that
    can be reached is tried nonetheless, and if there is none, everybody of the first.
    """
    everybody = list(range(len(tiers)))
    if stands.count("in") == len(stands) and tiers.count(tiers[0] if tiers else 0) == len(tiers):
        return everybody
    by_tier = [[at for at in everybody if tiers[at] == tier] for tier in sorted(set(tiers))]
    for members in by_tier:
        inside = [at for at in members if stands[at] == "in"]
        ejected = [at for at in members if stands[at] == "ejected"]
        if inside:
            return inside if len(inside) >= len(ejected) else sorted(inside + ejected)
    for members in by_tier:
        if reached := [at for at in members if stands[at] != "unreached"]:
            return reached
    return by_tier[0] if by_tier else []
