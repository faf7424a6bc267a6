"""What the admin API takes and gives, as its documentation shows it."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from auth import KeyRecord, Limits

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]


class Limit(BaseModel):
    model_config = ConfigDict(extra="forbid")

    rate_per_s: float = Field(gt=0, le=1_000_000, description="Requests a second, on average.")
    burst: int = Field(ge=1, le=1_000_000, description="Requests at once.")


class KeyRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tenant: Name = Field(
        description="Whom the key belongs to. Cached answers are never shared between tenants."
    )
    service: Name = Field("default", description="Which of the tenant's services uses it.")
    name: str = Field("", max_length=128, description="A note for humans.")
    limit: Limit | None = Field(None, description="Request limit; null: the configured default.")


class Key(BaseModel):
    id: str = Field(description="The public part, as in logs and traces.")
    tenant: str
    service: str
    name: str
    limit: Limit | None
    created_at: datetime
    revoked_at: datetime | None = None

    @classmethod
    def of(cls, record: KeyRecord) -> Key:
        return cls(**_fields(record))


class NewKey(Key):
    key: str = Field(description="The key itself, `eg-<id>-<secret>`. It is shown now and never again.")

    @classmethod
    def with_secret(cls, record: KeyRecord, secret: str) -> NewKey:
        return cls(**_fields(record), key=secret)


class KeyList(BaseModel):
    object: Literal["list"] = "list"
    data: list[Key]


class Change(BaseModel):
    """Where a change is in force. Workers that did not say so within a second follow when they can."""

    id: str
    not_acknowledged_by: list[int] = Field(description="Numbers of this host's workers; empty: all have it.")


class RevokedKey(Key):
    change: Change

    @classmethod
    def with_change(cls, record: KeyRecord, change: Change) -> RevokedKey:
        return cls(**_fields(record), change=change)


class ErrorBody(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class Error(BaseModel):
    error: ErrorBody


def limits_of(asked: Limit | None, default: Limits) -> Limits:
    return default if asked is None else Limits(requests_per_s=asked.rate_per_s, burst=asked.burst)


def _fields(record: KeyRecord) -> dict[str, Any]:
    return {
        "id": record.key_id,
        "tenant": record.tenant,
        "service": record.service,
        "name": record.name,
        "limit": _limit(record.limits),
        "created_at": datetime.fromtimestamp(record.created_at_s, UTC),
        "revoked_at": datetime.fromtimestamp(record.disabled_at_s, UTC) if record.disabled_at_s else None,
    }


def _limit(limits: Limits) -> Limit | None:
    if limits.requests_per_s is None:
        return None
    return Limit(rate_per_s=limits.requests_per_s, burst=limits.burst or math.ceil(limits.requests_per_s))
