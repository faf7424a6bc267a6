"""What backends speak of: members of a pool, versions of a model, attempts and what became of them.

All times are `time.monotonic()` seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

PolicyName = Literal["least-load", "p2c", "prefix", "random", "round-robin", "weighted"]
Health = Literal["ok", "failing", "unreachable", "unknown"]


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a member can do beyond plain text. Defaults are what any OpenAI server is taken to do.

    `features` are optional request fields that it understands: "priority", "cache_salt".
    """

    max_context: int | None = None  # tokens; None: not known, so nothing is ruled out
    modalities: frozenset[str] = frozenset()  # "image", "audio", …
    loras: frozenset[str] = frozenset()
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Needs:
    """What a request cannot do without; the counterpart of `Capabilities`."""

    context_tokens: int = 0
    modalities: frozenset[str] = frozenset()
    lora: str | None = None
    features: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Affinity:
    """Where a request would rather go, as keys of the caller's making.

    Requests of one `session` stay at one member for as long as it is usable. Requests of one `prefix` (the part of
    the prompt they share) meet at one member in pools of the policy "prefix", unless it has too much to do.
    """

    session: str | None = None
    prefix: str | None = None


NO_NEEDS = Needs()
NO_AFFINITY = Affinity()


@dataclass(frozen=True, slots=True)
class Member:
    """One model server of a pool. `base_url` has no path beyond an optional prefix before `/v1`.

    `tier` 0 is asked first, the next one only when no member of the tiers before is usable. `api_key` is the
    credential itself, `api_key_env` the name of the variable it came from: only the name is ever kept in a store.
    """

    name: str
    base_url: str
    upstream_model: str
    revision: str | None = None
    weight: float = 1.0
    api_key: str | None = field(default=None, repr=False)
    tier: int = 0
    capabilities: Capabilities = Capabilities()
    api_key_env: str | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """Who serves a public model name, and how one of them is chosen.

    `version_weights` share out requests by revision (70/30); a revision that is not listed weighs as much as its
    members together. `drained` members get no new requests; with each goes the cause, for the facts. `timeouts` None:
    those of the pools at large.
    """

    members: tuple[Member, ...]
    policy: PolicyName = "least-load"
    version_weights: Mapping[str, float] = field(default_factory=dict)
    drained: Mapping[str, str] = field(default_factory=dict)
    timeouts: Timeouts | None = None


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

    `body(member)` gives the bytes for it; `headers(attempt_number)` the headers of an
    attempt (1, 2, …), so that each attempt has its own request id and traceparent.
    """

    path: str
    body: Callable[[Member], bytes]
    headers: Callable[[int], Mapping[str, str]]
    is_stream: bool
    needs: Needs = NO_NEEDS
    affinity: Affinity = NO_AFFINITY


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request as it goes to one member, credentials apart."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Signals:
    """What a model server told of itself at `at_s`; None where it does not say.

    Counts are sums over its engines, `kv_usage` (0..1) is that of the fullest; totals only ever grow, but for
    restarts. `missing` names metrics that a server of its kind is known to have and this one lacks. Believed for
    three times `interval_s`, the time between two scrapes, and for 200 ms at least.
    """

    member: str
    at_s: float
    interval_s: float
    health: Health = "unknown"
    dialect: str | None = None
    running: float | None = None
    waiting: float | None = None
    kv_usage: float | None = None
    preemptions_total: float | None = None
    prefix_hits_total: float | None = None
    prefix_queries_total: float | None = None
    queue_s_total: float | None = None
    prefill_s_total: float | None = None
    generated_tokens_total: float | None = None
    missing: tuple[str, ...] = ()

    @property
    def fresh_until_s(self) -> float:
        return self.at_s + max(3 * self.interval_s, 0.2)


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
