"""Which members answer as which version of a public model, and which version a request gets."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..errors import NoBackend, UnknownModel
from ..model import Member, Pool, Version
from .revisions import Revision

IsUsable = Callable[[Sequence[Member]], bool]


@dataclass(frozen=True, slots=True)
class _Choice:
    """A version within one tier: its weight, and its members there."""

    version: Version
    weight: float
    members: tuple[Member, ...]


class Versions:
    """The table of one moment. `update` makes it new when pools or revisions have changed."""

    def __init__(self, pools: Mapping[str, Pool], *, revision_of: Callable[[str], Revision]) -> None:
        self._revision_of = revision_of
        self._tiers: dict[str, list[list[_Choice]]] = {}
        self._members: dict[Version, tuple[Member, ...]] = {}
        self._provisional: dict[Version, tuple[Member, ...]] = {}
        self.update(pools)

    def update(self, pools: Mapping[str, Pool]) -> None:
        self._members = {}
        self._tiers = {model: self._choices(model, pool) for model, pool in pools.items()}

    def pick(self, model: str, *, sticky: str | None, rng: random.Random, is_usable: IsUsable) -> Version:
        """A version by weight; the same `sticky` text gets the same one as long as weights stay.

        A version without a usable member is passed over, and so is a tier without one; where no member is usable
        at all, the first tier is drawn from nonetheless.
        """
        tiers = self._tiers.get(model)
        if tiers is None:
            raise UnknownModel(f"no pool serves the model {model!r}")
        if len(tiers) == 1 and len(tiers[0]) == 1:
            return tiers[0][0].version
        share = rng.random() if sticky is None else _point(sticky)
        for choices in tiers:
            first = _at(choices, share)
            if is_usable(first.members):
                return first.version
            # Only those whose own version is gone go elsewhere; everybody else's stays.
            others = [choice for choice in choices if choice is not first and is_usable(choice.members)]
            if others:
                return _at(others, share).version
        return _at(tiers[0], share).version

    def members(self, version: Version) -> tuple[Member, ...]:
        """Who answers as this version. A provisional version, superseded meanwhile, still leads to its member."""
        members = self._members.get(version) or self._provisional.get(version)
        if members is None:
            raise NoBackend(f"no member serves {version.model!r} at revision {version.revision!r} any more")
        return members

    def of(self, model: str) -> dict[str, Version]:
        """The version of each member of a pool, by name."""
        return {
            member.name: version
            for version, members in self._members.items()
            if version.model == model
            for member in members
        }

    def _choices(self, model: str, pool: Pool) -> list[list[_Choice]]:
        groups: dict[Version, list[Member]] = {}
        for member in pool.members:
            revision = self._revision_of(member.name)
            version = Version(model, revision.label, revision.is_guessed)
            groups.setdefault(version, []).append(member)
            if revision.is_provisional:
                self._provisional[version] = (member,)
        self._members.update({version: tuple(group) for version, group in groups.items()})
        # A member that never answered is chosen only if nobody did: it is most likely down, and as the only member of
        # its version it could not be covered for by another.
        known = [version for version in groups if version not in self._provisional]
        versions = sorted(known or groups, key=lambda version: version.revision)
        tiers = sorted({member.tier for version in versions for member in groups[version]})
        return [
            [
                _Choice(version, _weight(pool, version, members), members)
                for version in versions
                if (members := tuple(member for member in groups[version] if member.tier == tier))
            ]
            for tier in tiers
        ]


def _weight(pool: Pool, version: Version, members: Sequence[Member]) -> float:
    return pool.version_weights.get(version.revision, sum(member.weight for member in members))


def _at(choices: Sequence[_Choice], share: float) -> _Choice:
    point = share * sum(choice.weight for choice in choices)
    for choice in choices:
        point -= choice.weight
        if point < 0:
            return choice
    return max(choices, key=lambda choice: choice.weight)  # rounding, or no weight anywhere


def _point(sticky: str) -> float:
    digest = hashlib.blake2b(sticky.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
