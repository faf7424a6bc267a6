"""Decides how tenants, services and keys leave one deployment for another: as plain values, secrets as hashes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..model import KeyRecord, Record, Service, Tenant
from .records import FORMAT
from .rules import check

_SHA256 = re.compile(r"[0-9a-f]{64}")
_KINDS: Mapping[str, type[Tenant] | type[Service] | type[KeyRecord]] = {
    "tenant": Tenant,
    "service": Service,
    "key": KeyRecord,
}


def exported(record: Record) -> dict[str, Any]:
    """The record as JSON takes it. Of a secret it holds the SHA-256 in hex, which is enough to go on using it."""
    kind = next(name for name, each in _KINDS.items() if isinstance(record, each))
    plain: dict[str, Any] = msgspec.to_builtins(record, builtin_types=(bytes,), order="sorted")
    if isinstance(record, KeyRecord):
        del plain["last_used_at_s"]
        plain["secret_sha256"] = record.secret_sha256.hex()
        if record.old_secret is not None:
            plain["old_secret"]["sha256"] = record.old_secret.sha256.hex()
    return {"format": FORMAT, "kind": kind, **plain}


def imported(plain: Mapping[str, Any]) -> Record:
    """The record that was exported so. Raises ValueError, in words for an admin, for anything else."""
    values = dict(plain)
    kind = _KINDS.get(str(values.pop("kind", None)))
    if kind is None or values.pop("format", None) != FORMAT:
        raise ValueError(f"Expected a record of kind {', '.join(_KINDS)} in format {FORMAT}.")
    if kind is KeyRecord:
        values["secret_sha256"] = _digest(values.get("secret_sha256"))
        old = values.get("old_secret")
        if isinstance(old, Mapping):
            values["old_secret"] = {**old, "sha256": _digest(old.get("sha256"))}
    try:
        record: Record = msgspec.convert(values, kind, builtin_types=(bytes,))
    except msgspec.ValidationError as error:
        raise ValueError(f"A {kind.__name__} cannot be read: {error}.") from error
    if (stranger := _stranger(values, exported(record))) is not None:
        # A limit that is misspelt must not become one that is not there.
        raise ValueError(f"A {kind.__name__} has no {stranger!r}.")
    record.limits.validate()
    check(record)
    return record


def _stranger(given: Mapping[str, Any], known: Mapping[str, Any]) -> str | None:
    """A name, at any depth, that was given and means nothing."""
    for name, value in given.items():
        if name not in known:
            return name
        if isinstance(value, Mapping) and isinstance(known[name], Mapping):
            stranger = _stranger(value, known[name])
            if stranger is not None:
                return stranger
    return None


def _digest(value: object) -> bytes:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise ValueError("A secret is given as its SHA-256: 64 hexadecimal digits.")
    return bytes.fromhex(value)
