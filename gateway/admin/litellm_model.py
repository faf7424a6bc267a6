"""LiteLLM's words for a key, and ours: which of its fields mean what here, and which are refused.

A field that says nothing (null, empty, false) is taken whatever its name: LiteLLM's clients send all they know. One
that would say something Echogate does not do is refused, so that nobody relies on it.
"""

from __future__ import annotations

import re
import time
from dataclasses import replace
from datetime import datetime
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from auth import Budget, KeyRecord, Limits

from .model import LATEST_S, Name, moment, moment_or_none
from .model_records import MetadataName, MetadataValue, Note

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "mo": 2_592_000}
_DURATION = re.compile(r"(\d{1,9})(mo|[smhdw])")
_PERIODS: dict[str, Literal["day", "month"]] = {
    "1d": "day",
    "24h": "day",
    "daily": "day",
    "30d": "month",
    "1mo": "month",
    "monthly": "month",
}
_EVERY_MODEL = ("all-proxy-models", "all-team-models")
_USER = "user_id"  # a member of the key's metadata


class _Asked(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)

    # Only a note to LiteLLM's own pages.
    _idle: ClassVar[frozenset[str]] = frozenset({"send_invite_email", "key_type"})

    @model_validator(mode="after")
    def _nothing_else(self) -> _Asked:
        said = [name for name, value in (self.model_extra or {}).items() if value and name not in self._idle]
        if said:
            known = ", ".join(type(self).model_fields)
            raise ValueError(f"{', '.join(said)[:200]}: not known here; known are {known}")
        return self


class _Settings(_Asked):
    """What a key can be given. `models` empty: all. Budgets are in the money of the table `prices`."""

    key_alias: Note | None = Field(default=None, description="Our `name`.")
    models: list[str] | None = Field(default=None, max_length=256)
    duration: str | None = Field(
        default=None, description="`30s`, `30m`, `30h`, `30d`, `4w`, `1mo`; `-1`: for ever."
    )
    max_budget: float | None = Field(default=None, gt=0, le=1e15)
    budget_duration: str | None = Field(
        default=None, description="`1d` or `30d`: a calendar day or month (UTC)."
    )
    rpm_limit: int | None = Field(default=None, ge=1)
    tpm_limit: int | None = Field(default=None, ge=1)
    max_parallel_requests: int | None = Field(default=None, ge=1)
    metadata: dict[MetadataName, MetadataValue] | None = Field(default=None, max_length=16)
    user_id: MetadataValue | None = Field(default=None, description="Kept in the key's metadata.")

    def applied(self, record: KeyRecord) -> KeyRecord:
        """Null takes a limit away. Raises ValueError, in words for an admin."""
        said = self.model_fields_set
        if "key_alias" in said:
            record = replace(record, name=self.key_alias or "")
        if "models" in said:
            record = replace(record, policy=replace(record.policy, models=_models(self.models)))
            record.policy.validate()
        if "duration" in said:
            record = replace(record, expires_at_s=_expiry(self.duration))
        if self.metadata is not None:
            record = replace(record, metadata=_with_user(self.metadata, record.metadata.get(_USER)))
        if self.user_id is not None:
            record = replace(record, metadata=_with_user(record.metadata, self.user_id))
        return replace(record, limits=self._over(record.limits))

    def _over(self, limits: Limits) -> Limits:
        said = self.model_fields_set
        changes: dict[str, Any] = {
            ours: getattr(self, theirs) for theirs, ours in _LIMITS.items() if theirs in said
        }
        if "max_budget" in said or "budget_duration" in said:
            changes["budget"] = self._budget(limits.budget)
        limits = replace(limits, **changes)
        limits.validate()
        return limits

    def _budget(self, known: Budget | None) -> Budget | None:
        amount = (
            known.amount
            if known is not None and "max_budget" not in self.model_fields_set
            else self.max_budget
        )
        if amount is None:
            return None
        period = known.period if known is not None else None
        if self.budget_duration is not None:
            period = _PERIODS.get(self.budget_duration)
        if period is None:
            raise ValueError(
                f"budget_duration is {self.budget_duration!r}: expected 1d or 30d (a calendar day or month). "
                "A budget without an end is not known here."
            )
        return Budget(amount, "money", period)


_LIMITS = {
    "rpm_limit": "requests_per_min",
    "tpm_limit": "tokens_per_min",
    "max_parallel_requests": "concurrent",
}


class GenerateKey(_Settings):
    team_id: Name | None = Field(
        default=None, description="Our tenant, made if it is not there yet; null: `default`."
    )
    blocked: bool | None = None


class UpdateKey(_Settings):
    key: str = Field(max_length=256, description="The key itself, or its id.")


class NamedKey(_Asked):
    key: str = Field(max_length=256, description="The key itself, or its id.")


class NamedKeys(_Asked):
    keys: list[str] = Field(min_length=1, max_length=100, description="Keys, or their ids.")


class KeyInfo(BaseModel):
    """A key in LiteLLM's words. `spend` is in `/admin/usage`."""

    token: str = Field(description="The key's public id, ours for LiteLLM's hash.")
    key_name: str
    key_alias: str | None
    team_id: str
    user_id: str | None
    models: list[str]
    max_budget: float | None
    budget_duration: str | None
    rpm_limit: int | None
    tpm_limit: int | None
    max_parallel_requests: int | None
    metadata: dict[str, str]
    blocked: bool
    expires: datetime | None
    created_at: datetime


class GeneratedKey(KeyInfo):
    key: str = Field(description="The key itself. It is shown now and never again.")
    token_id: str


class KeyAndInfo(BaseModel):
    key: str
    info: KeyInfo


class UpdatedKey(KeyInfo):
    key: str


class DeletedKeys(BaseModel):
    deleted_keys: list[str]


def id_of(key: str) -> str:
    """The public id in a key `eg-<id>-<secret>`, or what was given in its place."""
    parts = key.split("-", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "eg" else key


def info_fields(record: KeyRecord) -> dict[str, Any]:
    limits, budget = record.limits, record.limits.budget
    money = budget if budget is not None and budget.unit == "money" else None
    return {
        "token": record.key_id,
        "key_name": f"eg-{record.key_id}-…",
        "key_alias": record.name or None,
        "team_id": record.tenant,
        "user_id": record.metadata.get(_USER),
        "models": list(record.policy.models or ()),
        "max_budget": money.amount if money else None,
        "budget_duration": {"day": "1d", "month": "30d"}[money.period] if money else None,
        **{theirs: getattr(limits, ours) for theirs, ours in _LIMITS.items()},
        "metadata": {name: value for name, value in record.metadata.items() if name != _USER},
        "blocked": record.disabled_at_s is not None,
        "expires": moment_or_none(record.expires_at_s),
        "created_at": moment(record.created_at_s),
    }


def _models(asked: list[str] | None) -> tuple[str, ...] | None:
    if not asked or any(name in _EVERY_MODEL for name in asked):
        return None  # LiteLLM's empty list means all; ours would mean none
    return tuple(asked)


def _expiry(duration: str | None) -> float | None:
    if duration in (None, "-1"):
        return None
    match = _DURATION.fullmatch(duration)
    at_s = time.time() + int(match[1]) * _UNITS_S[match[2]] if match else 0.0
    if not time.time() < at_s < LATEST_S:
        raise ValueError(
            f"duration is {duration[:32]!r}: expected one such as 30m, 12h, 90d, or -1 for ever."
        )
    return at_s


def _with_user(metadata: Any, user: str | None) -> dict[str, str]:
    return {**metadata, **({_USER: user} if user is not None else {})}
