"""Which members answer as which version of a public model, and which version a request gets."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Mapping, Sequence

from ..errors import NoBackend, UnknownModel
from ..model import Member, Version
from .revisions import Revision


class Versions:
    """The table of one moment. `update` makes it new when a revision has become known or has changed."""

    def __init__(
        self, pools: Mapping[str, Sequence[Member]], *, revision_of: Callable[[str], Revision]
    ) -> None:
        self._pools = pools
        self._revision_of = revision_of
        self._choices: dict[str, list[tuple[Version, float]]] = {}
        self._members: dict[Version, tuple[Member, ...]] = {}
        self._provisional: dict[Version, tuple[Member, ...]] = {}
        self.update()

    def update(self) -> None:
        self._members = {}
        for model, members in self._pools.items():
            self._choices[model] = self._group(model, members)

    def pick(self, model: str, *, sticky: str | None, rng: random.Random) -> Version:
        """A version by weight; the same `sticky` text gets the same one as long as weights stay."""
        choices = self._choices.get(model)
        if choices is None:
            raise UnknownModel(f"no pool serves the model {model!r}")
        if len(choices) == 1:
            return choices[0][0]
        point = (rng.random() if sticky is None else _point(sticky)) * sum(weight for _, weight in choices)
        for version, weight in choices:
            point -= weight
            if point < 0:
                return version
        return choices[-1][0]  # rounding

    def members(self, version: Version) -> tuple[Member, ...]:
        """Who answers as this version. A provisional version, superseded meanwhile, still leads to its member."""
        members = self._members.get(version) or self._provisional.get(version)
        if members is None:
            raise NoBackend(f"no member serves {version.model!r} at revision {version.revision!r} any more")
        return members

    def _group(self, model: str, members: Sequence[Member]) -> list[tuple[Version, float]]:
        groups: dict[Version, list[Member]] = {}
        for member in members:
            revision = self._revision_of(member.name)
            version = Version(model, revision.label, revision.is_guessed)
            groups.setdefault(version, []).append(member)
            if revision.is_provisional:
                self._provisional[version] = (member,)
        self._members.update({version: tuple(group) for version, group in groups.items()})
        # A member that never answered is chosen only if nobody did: it is most likely down, and as the only member of
        # its version it could not be covered for by another.
        known = [version for version in groups if version not in self._provisional]
        candidates = sorted(known or groups, key=lambda version: version.revision)
        return [(version, sum(member.weight for member in groups[version])) for version in candidates]


def _point(sticky: str) -> float:
    digest = hashlib.blake2b(sticky.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) / 2**64
