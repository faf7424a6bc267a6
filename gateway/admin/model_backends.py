"""Backends as the admin API takes and gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, Field, field_validator

from backends import Capabilities, Explanation, Finding, Member, MemberView, Signals

from ..settings.pools import CapabilitySettings, normal_base_url
from .model import Asked

Cause = Literal["admin", "preemption", "maintenance", "scale-in"]
MemberName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")]
ModelName = Annotated[str, Field(min_length=1, max_length=256)]


class SignalsOut(BaseModel):
    """What the server last said of itself; null where it does not say."""

    health: Literal["ok", "failing", "unreachable", "unknown"]
    dialect: str | None = Field(description="Which kind of server it is taken for.")
    age_s: float
    running: float | None
    waiting: float | None
    kv_usage: float | None = Field(description="How full the memory of its fullest engine is, 0 to 1.")
    missing: list[str] = Field(description="Metrics that servers of this kind have and this one lacks.")

    @classmethod
    def of(cls, said: Signals, *, now_s: float) -> SignalsOut:
        return cls(
            health=said.health,
            dialect=said.dialect,
            age_s=round(max(0.0, now_s - said.at_s), 3),
            running=said.running,
            waiting=said.waiting,
            kv_usage=said.kv_usage,
            missing=list(said.missing),
        )


class StandingOut(BaseModel):
    """A backend as one worker sees it. The load is in requests, those of others included; the score is the load over
    the measured weight, and lower is better."""

    worker: int
    standing: Literal["in", "ejected", "unreached"]
    breaker: Literal["closed", "open", "half-open"]
    ejections: int = Field(description="How often the breaker has opened.")
    in_flight: int
    load: float
    score: float
    measured_weight: float = Field(description="The configured weight times pace, health and warmth.")
    pace: float
    health: float
    warmth: float
    errors: float = Field(description="Share of failures lately, 0 to 1.")
    first_token_s: float | None

    @classmethod
    def of(cls, worker: int, view: MemberView) -> StandingOut:
        return cls(
            worker=worker, **{name: getattr(view, name) for name in cls.model_fields if name != "worker"}
        )


class BackendOut(BaseModel):
    name: str
    model: str
    revision: str
    tier: int
    weight: float
    state: Literal["active", "draining", "drained"] = Field(
        description="Draining: no new requests, and some worker still has open ones."
    )
    drained_for: str | None
    is_usable: bool = Field(description="Some worker sends requests there.")
    in_flight: int = Field(description="Of all workers of this host.")
    signals: SignalsOut | None = Field(description="Null: nothing was heard yet.")
    workers: list[StandingOut]

    @classmethod
    def of(cls, views: Mapping[int, MemberView], said: Signals | None, *, now_s: float) -> BackendOut:
        """Of one member, by worker; there is at least one."""
        one = next(iter(views.values()))
        states = {view.state for view in views.values()}
        return cls(
            name=one.member,
            model=one.model,
            revision=one.revision,
            tier=one.tier,
            weight=one.weight,
            state="draining" if "draining" in states else one.state,
            drained_for=one.drained_for,
            is_usable=any(view.state == "active" and view.standing == "in" for view in views.values()),
            in_flight=sum(view.in_flight for view in views.values()),
            signals=None if said is None else SignalsOut.of(said, now_s=now_s),
            workers=[StandingOut.of(worker, view) for worker, view in sorted(views.items())],
        )


class BackendList(BaseModel):
    object: Literal["list"] = "list"
    data: list[BackendOut]


class FindingOut(BaseModel):
    """Something a server is short of: what was seen, and which of its flags to turn."""

    backend: str
    shortage: str
    evidence: str
    advice: str

    @classmethod
    def of(cls, finding: Finding) -> FindingOut:
        return cls(
            backend=finding.member,
            shortage=finding.shortage,
            evidence=finding.evidence,
            advice=finding.advice,
        )


class Findings(BaseModel):
    data: list[FindingOut]
    heard: list[str] = Field(description="Backends that were heard of at all.")


class RouteRequest(Asked):
    """A request as the choice sees it."""

    model: ModelName
    key_id: Annotated[str | None, Field(max_length=64, description="For versions that stick to keys.")] = None
    tenant: Annotated[str, Field(max_length=64, description="Whose session it is.")] = ""
    session: Annotated[str | None, Field(max_length=256, description="As in `x-echogate-session`.")] = None
    context_tokens: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    modalities: list[Literal["image", "audio", "video", "file"]] = Field(default_factory=list, max_length=8)


class CandidateOut(BaseModel):
    backend: str
    score: float


class RouteOut(BaseModel):
    """Where such a request would go now, and why."""

    model: str
    revision: str
    policy: str
    backend: str
    reason: str
    candidates: list[CandidateOut] = Field(description="Those compared, by score; lower is better.")
    passed_over: dict[str, str] = Field(description="Every other backend of the pool, and the reason.")

    @classmethod
    def of(cls, explanation: Explanation) -> RouteOut:
        return cls(
            model=explanation.version.model,
            revision=explanation.version.revision,
            policy=explanation.policy,
            backend=explanation.member,
            reason=explanation.reason,
            candidates=[
                CandidateOut(backend=each.member, score=each.score) for each in explanation.candidates
            ],
            passed_over=explanation.passed_over,
        )


class DrainRequest(Asked):
    cause: Cause = "admin"


class MemberRequest(Asked):
    """A backend to add, or to stand in for a configured one of the same name."""

    model: ModelName = Field(description="The pool, by its public name.")
    url: str = Field(max_length=2048)
    upstream_model: Annotated[
        str | None, Field(min_length=1, max_length=256, description="The server's own name; null: `model`.")
    ] = None
    revision: Annotated[str | None, Field(min_length=1, max_length=128)] = None
    weight: Annotated[float, Field(gt=0, le=1000)] = 1.0
    tier: Annotated[int, Field(ge=0, le=9)] = 0
    capabilities: CapabilitySettings = CapabilitySettings()
    api_key_env: Annotated[
        str | None,
        Field(
            max_length=256,
            description="An environment variable that the configuration gives to a member too.",
        ),
    ] = None

    @field_validator("url")
    @classmethod
    def _is_base_url(cls, url: str) -> str:
        return normal_base_url(url)

    def as_member(self, name: str) -> Member:
        able = self.capabilities
        return Member(
            name=name,
            base_url=self.url,
            upstream_model=self.upstream_model or self.model,
            revision=self.revision,
            weight=self.weight,
            tier=self.tier,
            capabilities=Capabilities(
                max_context=able.max_context,
                modalities=frozenset(able.modalities),
                features=frozenset(able.features),
            ),
            api_key_env=self.api_key_env,
        )


class WeightsRequest(Asked):
    """By revision; empty: as configured."""

    model: ModelName
    weights: Annotated[
        dict[
            Annotated[str, Field(min_length=1, max_length=128)], Annotated[float, Field(ge=0, le=1_000_000)]
        ],
        Field(max_length=64),
    ]


class ResetRequest(Asked):
    """Null: all pools."""

    model: ModelName | None = None


class PoolDiff(BaseModel):
    """How a pool differs from its configuration, one change a line."""

    model: str
    differences: list[str]


class DiffOut(BaseModel):
    data: list[PoolDiff] = Field(description="Pools that differ; empty: all are as configured.")


class PoolChange(BaseModel):
    """A change that is made. Workers of this host that did not confirm it within a second are listed; those of other
    hosts follow within about a second."""

    model: str
    differences: list[str]
    not_acknowledged_by: list[int]


class EventOut(BaseModel):
    """What an event led to; empty where it asks for nothing, or names no backend of ours."""

    action: Literal["drain", "restore", "none"]
    cause: str | None
    backends: list[str]


def differing(diffs: Sequence[PoolDiff]) -> DiffOut:
    return DiffOut(data=[diff for diff in diffs if diff.differences])
