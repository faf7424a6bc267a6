"""What an audit log records, and what a verification finds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Literal

import msgspec

from ..model import Record

Kind = Literal["deleted", "edited", "replaced", "unsigned", "wrong end"]
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """Who did what to what, from where, and what came of it. `before` and `after` are as `facts_of` gives them,
    or other plain facts; a key that slips into them is cut out."""

    at_s: float
    actor: str
    role: str
    action: str
    target: str
    outcome: str
    source_ip: str | None = None
    before: Facts | None = None
    after: Facts | None = None


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """A record in its place. Numbers start at 1 and have no gaps."""

    number: int
    record: AuditRecord


@dataclass(frozen=True, slots=True)
class AuditProblem:
    """What is wrong with the records `first` to `last`.

    deleted: they are gone. edited: the content is not what was written. replaced: a genuine record, but not the
    one that followed here. unsigned: a checkpoint, or the note of where the log ends, is not signed with our key.
    wrong end: the log is noted to end at `first`, but goes on to `last`.
    """

    kind: Kind
    first: int
    last: int

    def __str__(self) -> str:
        which = f"record {self.first}" if self.first == self.last else f"records {self.first} to {self.last}"
        match self.kind:
            case "deleted":
                return f"{which}: deleted"
            case "edited":
                return f"{which}: edited, the chain is broken here"
            case "replaced":
                return f"{which}: replaced by another one"
            case "unsigned":
                return f"the checkpoint at record {self.first} is not signed with the audit key"
            case "wrong end":
                return f"the log is noted to end with record {self.first}, but goes on to record {self.last}"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What a verification found.

    The records after `since` up to `last` were checked, `checked` of them. The log starts after record
    `starts_after` (0: with the first); `is_covered` says that a signed checkpoint vouches for what was there.
    """

    since: int
    last: int
    checked: int
    starts_after: int
    is_covered: bool
    problems: tuple[AuditProblem, ...]

    @property
    def is_intact(self) -> bool:
        return self.is_covered and not self.problems


def facts_of(record: Record) -> Facts:
    """What is set on a tenant, a service or a key, as plain values, without anything of its secrets."""
    facts: dict[str, object] = {}
    for each in fields(record):
        value = getattr(record, each.name)
        if each.name == "old_secret":
            facts["old_secret_ends_at_s"] = value.ends_at_s if value is not None else None
        elif each.name != "secret_sha256":
            facts[each.name] = msgspec.to_builtins(value, order="sorted")
    return {name: value for name, value in facts.items() if value is not None}


def difference(before: Record, after: Record) -> tuple[Facts, Facts]:
    """The facts that a change made different, as they were and as they are."""
    old, new = facts_of(before), facts_of(after)
    names = {name for name in (*old, *new) if old.get(name) != new.get(name)}
    return (
        {name: value for name, value in old.items() if name in names},
        {name: value for name, value in new.items() if name in names},
    )
