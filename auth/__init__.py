"""Auth: turns a request's headers into a principal, and decides whether it may make a request now."""

from __future__ import annotations

from .errors import AuthError, ConflictingKeys, InvalidKey, KeysUnavailable, MissingKey, UnreadableRecord
from .identity.authenticate import Authenticator
from .identity.keys import mint
from .identity.store_keys import StoreKeys
from .interfaces import KeyStore, LimitStore
from .limits.limiter import Limiter
from .limits.script import StoreLimits
from .model import Decision, KeyRecord, Principal, RequestLimit

__all__ = [
    "AuthError",
    "Authenticator",
    "ConflictingKeys",
    "Decision",
    "InvalidKey",
    "KeyRecord",
    "KeyStore",
    "KeysUnavailable",
    "LimitStore",
    "Limiter",
    "MissingKey",
    "Principal",
    "RequestLimit",
    "StoreKeys",
    "StoreLimits",
    "UnreadableRecord",
    "mint",
]
