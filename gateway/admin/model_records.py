"""Tenants, services and keys as the admin API takes and gives them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field

from auth import KeyRecord, Policy, Service, Tenant

from .model import LATEST_S, Asked, Change, Name, When, moment, moment_or_none
from .model_rights import LimitsModel, PolicyModel, RightsModel

State = Literal["active", "disabled", "expired"]
MetadataName = Annotated[str, Field(min_length=1, max_length=64)]
MetadataValue = Annotated[str, Field(max_length=512)]
Metadata = Annotated[dict[MetadataName, MetadataValue], Field(max_length=16)]
Note = Annotated[str, Field(max_length=128, description="A note for humans.")]

R = TypeVar("R", Tenant, Service, KeyRecord)


class TenantRequest(Asked):
    name: Name
    policy: PolicyModel = PolicyModel()
    limits: LimitsModel = LimitsModel()
    metadata: Metadata = Field(default_factory=dict)


class ServiceRequest(TenantRequest):
    tenant: Name = Field(description="It is made if it is not there yet.")


class KeyRequest(Asked):
    tenant: Name = Field(description="Whom the key belongs to; it is made if it is not there yet.")
    service: Name = Field(default="default", description="Which of the tenant's services uses it; likewise.")
    name: Note = ""
    policy: PolicyModel = PolicyModel()
    limits: LimitsModel = Field(
        default=LimitsModel(),
        description="What is not named is as the configuration has it for new keys; null: no such limit.",
    )
    metadata: Metadata = Field(default_factory=dict)
    expires_at: When | None = None


class Update(Asked):
    """What is not named stays. Within `policy`, `limits` and `metadata` too; there null takes a value away."""

    policy: PolicyModel = PolicyModel()
    limits: LimitsModel = LimitsModel()
    metadata: dict[MetadataName, MetadataValue | None] = Field(default_factory=dict, max_length=32)

    def applied(self, record: R) -> R:
        """Raises ValueError, in words for an admin."""
        return replace(
            record,
            policy=self.policy.over(record.policy),
            limits=self.limits.over(record.limits),
            metadata=_merged(record.metadata, self.metadata),
        )


class KeyUpdate(Update):
    name: Note | None = Field(default=None, description="Null: stays.")
    expires_at: When | None = Field(default=None, description="Null, where it is named: never.")

    def applied_to_key(self, record: KeyRecord) -> KeyRecord:
        """Raises ValueError, in words for an admin."""
        changed = self.applied(record)
        if self.name is not None:
            changed = replace(changed, name=self.name)
        if "expires_at" in self.model_fields_set:
            changed = replace(changed, expires_at_s=expiry(self.expires_at))
        return changed


class RotateRequest(Asked):
    grace_s: float = Field(
        default=86_400, ge=0, le=31_536_000, description="How long the secret of before goes on working."
    )


class _Described(BaseModel):
    policy: PolicyModel
    limits: LimitsModel
    metadata: dict[str, str]
    created_at: datetime
    disabled_at: datetime | None


class TenantOut(_Described):
    object: Literal["tenant"] = "tenant"
    name: str

    @classmethod
    def of(cls, record: Tenant) -> TenantOut:
        return cls(name=record.name, **_described(record))


class ServiceOut(_Described):
    object: Literal["service"] = "service"
    tenant: str
    name: str

    @classmethod
    def of(cls, record: Service) -> ServiceOut:
        return cls(tenant=record.tenant, name=record.name, **_described(record))


class KeyOut(_Described):
    object: Literal["key"] = "key"
    id: str = Field(description="The public part, as in logs and traces.")
    tenant: str
    service: str
    name: str
    state: State
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="Right to the minute.")
    old_secret_ends_at: datetime | None = Field(description="After a rotation: until when the old one works.")

    @classmethod
    def of(cls, record: KeyRecord) -> KeyOut:
        return cls(**key_fields(record))


class KeyDetail(KeyOut):
    effective: RightsModel = Field(description="What the key may do with all that it inherits.")


class NewKey(KeyOut):
    key: str = Field(description="The key itself, `eg-<id>-<secret>`. It is shown now and never again.")


class ChangedTenant(TenantOut):
    change: Change


class ChangedService(ServiceOut):
    change: Change


class ChangedKey(KeyOut):
    change: Change


class RotatedKey(ChangedKey):
    key: str = Field(description="The key with its new secret. It is shown now and never again.")


def key_fields(record: KeyRecord) -> dict[str, Any]:
    old = record.old_secret
    return {
        "id": record.key_id,
        "tenant": record.tenant,
        "service": record.service,
        "name": record.name,
        "state": state_of(record, now_s=time.time()),
        "expires_at": moment_or_none(record.expires_at_s),
        "last_used_at": moment_or_none(record.last_used_at_s),
        "old_secret_ends_at": moment_or_none(old.ends_at_s if old is not None else None),
        **_described(record),
    }


def state_of(record: KeyRecord, *, now_s: float) -> State:
    if record.disabled_at_s is not None:
        return "disabled"
    return "expired" if record.expires_at_s is not None and record.expires_at_s <= now_s else "active"


def expiry(at: datetime | None) -> float | None:
    """Raises ValueError for a moment that is over, or too far off to be one."""
    if at is None:
        return None
    at_s = at.timestamp()
    if not time.time() < at_s < LATEST_S:
        raise ValueError("expires_at must lie in the future.")
    return at_s


def policy_of(asked: PolicyModel) -> Policy:
    return asked.over(Policy())


def _described(record: Tenant | Service | KeyRecord) -> dict[str, Any]:
    return {
        "policy": PolicyModel.of(record.policy),
        "limits": LimitsModel.of(record.limits),
        "metadata": dict(record.metadata),
        "created_at": moment(record.created_at_s),
        "disabled_at": moment_or_none(record.disabled_at_s),
    }


def _merged(known: Mapping[str, str], said: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in {**known, **said}.items() if value is not None}
