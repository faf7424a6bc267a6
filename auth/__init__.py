"""Auth: turns a request's headers into a principal, and decides whether it may make a request now."""

from __future__ import annotations

from .errors import AuthError, ConflictingKeys, InvalidKey, KeysUnavailable, MissingKey, UnreadableRecord
from .identity.authenticate import Authenticator
from .identity.keys import mint
from .identity.store_keys import StoreKeys
from .interfaces import KeyStore, LimitStore
from .limits.limiter import Limiter
from .limits.model import DEFAULT_LIMITS, Budget, LevelLimits, Limits
from .limits.script import StoreLimits
from .model import (
    SCOPES,
    CacheMode,
    CacheScope,
    Decision,
    KeyRecord,
    KeyWarning,
    Lineage,
    OldSecret,
    Policy,
    Principal,
    Priority,
    RequestLimit,
    Rights,
    Scope,
    Service,
    Tenant,
)

__all__ = [
    "DEFAULT_LIMITS",
    "SCOPES",
    "AuthError",
    "Authenticator",
    "Budget",
    "CacheMode",
    "CacheScope",
    "ConflictingKeys",
    "Decision",
    "InvalidKey",
    "KeyRecord",
    "KeyStore",
    "KeyWarning",
    "KeysUnavailable",
    "LevelLimits",
    "LimitStore",
    "Limiter",
    "Limits",
    "Lineage",
    "MissingKey",
    "OldSecret",
    "Policy",
    "Principal",
    "Priority",
    "RequestLimit",
    "Rights",
    "Scope",
    "Service",
    "StoreKeys",
    "StoreLimits",
    "Tenant",
    "UnreadableRecord",
    "mint",
]
