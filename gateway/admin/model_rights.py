"""Limits and policies as the admin API takes and gives them, and how a part of one changes the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import msgspec
from pydantic import BaseModel, Field

from auth import Budget, Limits, Policy, Priority, Rights

from .model import Asked

ScopeName = Literal["chat", "embeddings", "models", "feedback"]
PriorityName = Literal["interactive", "normal", "batch"]
_COUNT = 1_000_000_000


class BudgetModel(Asked):
    """So much a calendar day or month (UTC): tokens, or money by the table `prices`."""

    amount: float = Field(gt=0, le=1e15)
    unit: Literal["tokens", "money"]
    period: Literal["day", "month"]


class LimitsModel(Asked):
    """What is null is not limited at this level. Limits of a key, its service and its tenant apply all at once."""

    requests_per_s: float | None = Field(default=None, ge=10, le=5000, description="On average.")
    burst: int | None = Field(
        default=None,
        ge=1,
        le=_COUNT,
        description="Requests at once, beside `requests_per_s`; null: one second's worth.",
    )
    requests_per_min: int | None = Field(default=None, ge=1, le=_COUNT)
    tokens_per_min: int | None = Field(
        default=None, ge=1, le=_COUNT, description="Input and output together."
    )
    concurrent: int | None = Field(
        default=None, ge=1, le=_COUNT, description="Requests that run at the same time."
    )
    budget: BudgetModel | None = None

    @classmethod
    def of(cls, limits: Limits) -> LimitsModel:
        return cls.model_validate(msgspec.to_builtins(limits))

    def whole(self) -> Limits:
        """Raises ValueError, in words for an admin."""
        return self.over(Limits())

    def over(self, limits: Limits) -> Limits:
        """The limits with what was said of them here; null takes one away. Raises like `whole`."""
        said: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if "requests_per_s" in said and said["requests_per_s"] is None:
            said.setdefault("burst", None)  # it is a part of that limit
        if isinstance(budget := said.get("budget"), BudgetModel):
            said["budget"] = Budget(budget.amount, budget.unit, budget.period)
        changed = replace(limits, **said)
        changed.validate()
        return changed


class PolicyModel(Asked):
    """What is null is inherited: a key's from its service, a service's from its tenant, a tenant's from the
    deployment."""

    models: list[str] | None = Field(
        default=None,
        max_length=256,
        description="Public names of models, exact or with the wildcards `*` and `?`.",
    )
    scopes: list[ScopeName] | None = Field(default=None, max_length=16)
    cache_scope: Literal["tenant", "service", "user"] | None = Field(
        default=None, description="Who shares cached answers."
    )
    cache_mode: Literal["off", "exact", "shadow", "semantic"] | None = None
    shared_pool: bool | None = Field(
        default=None,
        description="Share answers with other tenants that say so too. Only for what anybody may read.",
    )
    priority: PriorityName | None = None

    @classmethod
    def of(cls, policy: Policy) -> PolicyModel:
        return cls(
            models=None if policy.models is None else list(policy.models),
            scopes=None if policy.scopes is None else sorted(policy.scopes),
            cache_scope=policy.cache_scope,
            cache_mode=policy.cache_mode,
            shared_pool=policy.shared_pool,
            priority=None if policy.priority is None else _priority_name(policy.priority),
        )

    def over(self, policy: Policy) -> Policy:
        """The policy with what was said of it here; null means inherited again. Raises ValueError."""
        said: dict[str, Any] = {name: getattr(self, name) for name in self.model_fields_set}
        if said.get("models") is not None:
            said["models"] = tuple(said["models"])
        if said.get("scopes") is not None:
            said["scopes"] = frozenset(said["scopes"])
        if said.get("priority") is not None:
            said["priority"] = Priority[said["priority"].upper()]
        changed = replace(policy, **said)
        changed.validate()
        return changed


class RightsModel(BaseModel):
    """What a key may do in the end."""

    models: list[str]
    scopes: list[ScopeName]
    cache_scope: Literal["tenant", "service", "user"]
    cache_mode: Literal["off", "exact", "shadow", "semantic"]
    shared_pool: bool
    priority: PriorityName

    @classmethod
    def of(cls, rights: Rights) -> RightsModel:
        return cls(
            models=list(rights.models),
            scopes=sorted(rights.scopes),
            cache_scope=rights.cache_scope,
            cache_mode=rights.cache_mode,
            shared_pool=rights.shared_pool,
            priority=_priority_name(rights.priority),
        )


def _priority_name(priority: Priority) -> PriorityName:
    names: dict[Priority, PriorityName] = {
        Priority.INTERACTIVE: "interactive",
        Priority.NORMAL: "normal",
        Priority.BATCH: "batch",
    }
    return names[priority]
