"""Decides what a key looks like, how one is made, and whether a presented secret is the right one."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import string
from collections.abc import Mapping
from typing import Literal, NamedTuple

from ..limits.model import DEFAULT_LIMITS, Limits
from ..model import KeyRecord, Policy
from .rules import check

_ID_ALPHABET = string.ascii_lowercase + string.digits
_ID_LENGTH = 12
_SECRET_BYTES = 32  # 43 url-safe characters
_KEY = re.compile(rb"eg-([a-z0-9]{12})-([A-Za-z0-9_-]{43})")

# What is compared with where there is nothing, so that it takes the same work as a wrong secret.
_NOBODY = hashlib.sha256(secrets.token_bytes(_SECRET_BYTES)).digest()


class PresentedKey(NamedTuple):
    """A well-formed key as it was sent. Not for logs: it holds the secret's hash."""

    key_id: str
    secret_sha256: bytes


def mint(
    *,
    tenant: str,
    service: str,
    name: str,
    created_at_s: float,
    limits: Limits = DEFAULT_LIMITS,
    policy: Policy = Policy(),  # noqa: B008 - frozen
    metadata: Mapping[str, str] | None = None,
    expires_at_s: float | None = None,
    secret: str | None = None,
) -> tuple[KeyRecord, str]:
    """A new key: the record to keep, and the plaintext `eg-<public id>-<secret>` to show once.

    `secret` is for who must be able to make the same one again: 32 random bytes in 43 url-safe characters.
    Raises ValueError, in words for an admin, for names, metadata or a policy that may not be.
    """
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = secret or new_secret()
    record = KeyRecord(
        key_id=key_id,
        tenant=tenant,
        service=service,
        name=name,
        secret_sha256=sha256(secret),
        created_at_s=created_at_s,
        policy=policy,
        limits=limits,
        metadata=dict(metadata or {}),
        expires_at_s=expires_at_s,
    )
    check(record)
    return record, plaintext(key_id, secret)


def new_secret() -> str:
    return secrets.token_urlsafe(_SECRET_BYTES)


def sha256(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("ascii")).digest()


def plaintext(key_id: str, secret: str) -> str:
    return f"eg-{key_id}-{secret}"


def read_key(presented: bytes) -> PresentedKey | None:
    """The parts of a presented key; None if it is not one of ours."""
    match = _KEY.fullmatch(presented)
    if match is None:
        return None
    key_id, secret = match.groups()
    return PresentedKey(key_id.decode("ascii"), hashlib.sha256(secret).digest())


def matching(presented: PresentedKey, record: KeyRecord | None) -> Literal["current", "old"] | None:
    """Which of the record's secrets was presented, if any, in time that does not tell how far it is right, nor
    how many there are, nor whether there is a record at all."""
    current = old = _NOBODY
    if record is not None:
        current = record.secret_sha256
        old = record.old_secret.sha256 if record.old_secret is not None else _NOBODY
    is_current = hmac.compare_digest(presented.secret_sha256, current)
    is_old = hmac.compare_digest(presented.secret_sha256, old)
    if record is None:
        return None
    return "current" if is_current else "old" if is_old else None
