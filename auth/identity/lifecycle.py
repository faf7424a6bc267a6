"""Decides how tenants, services and keys change: pure functions from a record to the next, for `Directory.change`."""

from __future__ import annotations

from dataclasses import replace

from ..interfaces import Directory
from ..model import KeyRecord, KeyRef, OldSecret, R, Written
from .keys import new_secret, plaintext, sha256


def disabled(record: R, *, at_s: float) -> R:
    """As it is from now on refused. Once more changes nothing: the first moment stays."""
    return record if record.disabled_at_s is not None else replace(record, disabled_at_s=at_s)


def enabled(record: R) -> R:
    return replace(record, disabled_at_s=None)


def rotated(record: KeyRecord, secret: str, *, at_s: float, grace_s: float) -> KeyRecord:
    """With a new secret. The one before works for `grace_s` more; the one before that no longer."""
    old = OldSecret(record.secret_sha256, at_s + grace_s) if grace_s > 0 else None
    return replace(record, secret_sha256=sha256(secret), old_secret=old)


async def rotate(
    directory: Directory, key_id: str, *, at_s: float, grace_s: float
) -> tuple[Written[KeyRecord], str]:
    """The key as it is now, and its new plaintext, to be shown once. Raises what `Directory.change` does."""
    secret = new_secret()
    written = await directory.change(
        KeyRef(key_id), lambda record: rotated(record, secret, at_s=at_s, grace_s=grace_s)
    )
    return written, plaintext(key_id, secret)
