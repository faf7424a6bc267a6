"""What backends speak of: members of a pool, versions of a model, attempts and what became of them.

All times are `time.monotonic()` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Member:
    """One model server of a pool. `base_url` has no path beyond an optional prefix before `/v1`."""

    name: str
    base_url: str
    upstream_model: str
    revision: str | None = None
    weight: float = 1.0
    api_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Version:
    """What answers: a public model name at a revision. Part of every cache identity.

    `is_guessed` says that the revision was derived from what the server tells of itself rather than configured.
    """

    model: str
    revision: str
    is_guessed: bool = False


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Bounds of one attempt: connect, first byte of the answer, silence between chunks."""

    connect_s: float = 3.0
    first_byte_s: float = 120.0
    idle_s: float = 60.0


@dataclass(frozen=True, slots=True)
class UpstreamRequest:
    """A request that can be sent to any member of a version.

    `body(upstream_model)` gives the bytes for a member; `headers(attempt_number)` the headers of an
    attempt (1, 2, …), so that each attempt has its own request id and traceparent.
    """

    path: str
    body: Callable[[str], bytes]
    headers: Callable[[int], Mapping[str, str]]
    is_stream: bool


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it goes to one member, credentials apart."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A member as the choice saw it, for explaining: its load score (lower is better)."""

    member: str
    score: float


@dataclass(slots=True)
class Attempt:
    """One try at one member: filled in as it goes, so that a trace can tell of it at any time."""

    number: int
    member: str
    started_s: float
    candidates: tuple[Candidate, ...] = ()
    first_byte_s: float | None = None
    ended_s: float | None = None
    status: int | None = None
    error: str | None = None  # short machine word: "connect", "timeout", "reset", "status", "empty-stream", …
