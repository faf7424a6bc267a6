"""Decides what tenants, services and keys may be called and carry."""

from __future__ import annotations

import re

from ..model import KeyRecord, Record

_KEY_ID = re.compile(r"[a-z0-9]{12}")
# Names become parts of store keys, log fields and metric labels.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_MOST_METADATA, _LONGEST_NAME, _LONGEST_VALUE = 16, 64, 512
_LONGEST_NOTE = 128


def check(record: Record) -> None:
    """Raises ValueError, in words for an admin, for a record that may not be. Limits are checked by themselves."""
    if isinstance(record, KeyRecord):
        _check_name("tenant", record.tenant)
        _check_name("service", record.service)
        if not _KEY_ID.fullmatch(record.key_id):
            raise ValueError(f"The key id {record.key_id!r} must be 12 lower-case letters and digits.")
        if len(record.name) > _LONGEST_NOTE:
            raise ValueError(
                f"The name of a key may have {_LONGEST_NOTE} characters, not {len(record.name)}."
            )
    else:
        _check_name(type(record).__name__.lower(), record.name)
    if len(record.metadata) > _MOST_METADATA:
        raise ValueError(f"There may be {_MOST_METADATA} metadata, not {len(record.metadata)}.")
    for name, value in record.metadata.items():
        if not 1 <= len(name) <= _LONGEST_NAME or len(value) > _LONGEST_VALUE:
            raise ValueError(
                f"Metadata have names of 1 to {_LONGEST_NAME} characters and values of at most {_LONGEST_VALUE}."
            )
    record.policy.validate()


def _check_name(role: str, value: str) -> None:
    if not _NAME.fullmatch(value):
        raise ValueError(
            f"The {role} {value!r} must be 1 to 64 letters, digits, dots, dashes or underscores, "
            "the first a letter or digit."
        )
