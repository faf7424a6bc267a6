"""Decides what a key looks like, how one is made, and whether a presented secret is the right one."""

from __future__ import annotations

import hashlib
import hmac
import math
import re
import secrets
import string
from typing import NamedTuple

from ..limits.model import Limits
from ..model import KeyRecord, RequestLimit

_ID_ALPHABET = string.ascii_lowercase + string.digits
_ID_LENGTH = 12
_SECRET_BYTES = 32  # 43 url-safe characters
_KEY = re.compile(rb"eg-([a-z0-9]{12})-([A-Za-z0-9_-]{43})")
# Names become parts of store keys, log fields and metric labels.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

# What an unknown key is compared with, so that it takes the same work as a wrong secret.
_NOBODY = hashlib.sha256(secrets.token_bytes(_SECRET_BYTES)).digest()


class PresentedKey(NamedTuple):
    """A well-formed key as it was sent. Not for logs: it holds the secret's hash."""

    key_id: str
    secret_sha256: bytes


def mint(
    *, tenant: str, service: str, name: str, limit: RequestLimit, created_at_s: float
) -> tuple[KeyRecord, str]:
    """A new key: the record to keep, and the plaintext `eg-<public id>-<secret>` to show once.

    Raises ValueError for a tenant or service name or a limit that cannot be.
    """
    for role, value in (("tenant", tenant), ("service", service)):
        if not _NAME.fullmatch(value):
            raise ValueError(
                f"The {role} {value!r} must be 1 to 64 letters, digits, dots, dashes or underscores, "
                "the first a letter or digit."
            )
    if not (math.isfinite(limit.rate_per_s) and limit.rate_per_s > 0 and limit.burst >= 1):
        raise ValueError(
            f"A limit needs a rate above 0 and a burst above 0, not {limit.rate_per_s:g} and {limit.burst}."
        )
    key_id = "".join(secrets.choice(_ID_ALPHABET) for _ in range(_ID_LENGTH))
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    record = KeyRecord(
        key_id=key_id,
        secret_sha256=hashlib.sha256(secret.encode("ascii")).digest(),
        tenant=tenant,
        service=service,
        name=name,
        limits=Limits(requests_per_s=limit.rate_per_s, burst=limit.burst),
        created_at_s=created_at_s,
    )
    return record, f"eg-{key_id}-{secret}"


def read_key(presented: bytes) -> PresentedKey | None:
    """The parts of a presented key; None if it is not one of ours."""
    match = _KEY.fullmatch(presented)
    if match is None:
        return None
    key_id, secret = match.groups()
    return PresentedKey(key_id.decode("ascii"), hashlib.sha256(secret).digest())


def is_right(presented: PresentedKey, record: KeyRecord | None) -> bool:
    """Whether the secret is that of the record, in time that does not tell how far it is right, nor whether
    there is a record at all."""
    expected = record.secret_sha256 if record is not None else _NOBODY
    return hmac.compare_digest(presented.secret_sha256, expected) and record is not None
