"""What admins changed of a pool, laid over its configuration: pure values, and what differs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from .model import Member, Pool


@dataclass(frozen=True, slots=True)
class Overlay:
    """Changes of one pool. Empty means: as configured.

    `members` are added, or stand in for configured ones of the same name; `removed` names configured ones. `drained`
    gives for each member that gets no new requests the cause. Credentials are not part of it: a member names the
    variable that holds its own (`api_key_env`), and whoever applies the overlay fills it in.
    """

    version_weights: Mapping[str, float] = field(default_factory=dict)
    drained: Mapping[str, str] = field(default_factory=dict)
    members: tuple[Member, ...] = ()
    removed: frozenset[str] = frozenset()

    def with_drained(self, member: str, *, cause: str) -> Overlay:
        """A cause given earlier stays: what happened first is what is recovered from."""
        return replace(self, drained={member: cause} | dict(self.drained))

    def without_drained(self, member: str) -> Overlay:
        return replace(self, drained={name: cause for name, cause in self.drained.items() if name != member})

    def with_member(self, member: Member) -> Overlay:
        others = tuple(other for other in self.members if other.name != member.name)
        return replace(self, members=(*others, member), removed=self.removed - {member.name})

    def without_member(self, member: str) -> Overlay:
        others = tuple(other for other in self.members if other.name != member)
        return replace(self.without_drained(member), members=others, removed=self.removed | {member})

    def with_weights(self, weights: Mapping[str, float]) -> Overlay:
        """By revision; they take the place of all earlier ones."""
        return replace(self, version_weights=dict(weights))


def laid_over(pool: Pool, overlay: Overlay) -> Pool:
    """The pool as it is to be. Names that are no longer configured do no harm."""
    added = {member.name: member for member in overlay.members}
    kept = [added.pop(m.name, m) for m in pool.members if m.name not in overlay.removed]
    return replace(
        pool,
        members=(*kept, *added.values()),
        version_weights=overlay.version_weights or pool.version_weights,
        drained={**pool.drained, **overlay.drained},
    )


def differences(pool: Pool, overlay: Overlay) -> list[str]:
    """In words, one change a line; empty when the pool is as configured."""
    configured = {member.name: member for member in pool.members}
    lines = [f"- {name} removed" for name in sorted(overlay.removed & configured.keys())]
    for member in overlay.members:
        if member.name not in configured:
            lines.append(f"+ {member.name} added")
        elif member != configured[member.name]:
            lines.append(f"~ {member.name} changed")
    lines += [f"~ {name} drained ({cause})" for name, cause in sorted(overlay.drained.items())]
    if overlay.version_weights:
        shares = ", ".join(f"{revision}: {weight:g}" for revision, weight in overlay.version_weights.items())
        lines.append(f"~ versions weighted {shares}")
    return lines
