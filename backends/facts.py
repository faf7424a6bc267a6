"""What the pools tell of themselves, for admins and metrics: members as they stand, versions, recoveries, a choice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .model import Candidate, PolicyName, Signals, Version
from .survive import BreakerState, Standing

MemberState = Literal["active", "draining", "drained"]


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member as this worker sees it now. Load and score are what the choice would see; lower is better.

    `weight` is the configured one, `measured_weight` what became of it: times pace, health and warmth.
    """

    member: str
    model: str
    revision: str
    tier: int
    state: MemberState
    drained_for: str | None
    standing: Standing
    breaker: BreakerState
    ejections: int  # how often its breaker has opened
    in_flight: int
    load: float
    score: float
    weight: float
    measured_weight: float
    pace: float
    health: float
    warmth: float
    errors: float
    first_token_s: float | None
    signals: Signals | None


@dataclass(frozen=True, slots=True)
class Explanation:
    """Where a request would go now, and why. `passed_over` gives for every other member of the pool the reason."""

    version: Version
    policy: PolicyName
    member: str
    reason: str
    candidates: tuple[Candidate, ...]
    passed_over: dict[str, str]
    members: tuple[MemberView, ...]


@dataclass(slots=True)
class VersionCounts:
    """Attempts at members of a version since the start; they only ever grow."""

    begun: int = 0
    answered: int = 0  # complete answers
    failed: int = 0  # by the member's fault
    abandoned: int = 0  # ended by the caller, or refused with a 4xx
    first_tokens: int = 0
    first_token_s_total: float = 0.0
    duration_s_total: float = 0.0  # of the complete answers


@dataclass(frozen=True, slots=True)
class Recovery:
    """How long trouble of one class lasted: "failure" from the breaker's opening to its closing; any cause of a drain
    from the order until the last request of this worker there had ended."""

    member: str
    cause: str
    seconds: float
