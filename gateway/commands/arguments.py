"""Reads what people type on the command line for the admin API: values, durations, names. All raise AdminError."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from .admin_client import AdminError

_UNITS_S = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def read_values(values: Sequence[str] | None) -> dict[str, Any]:
    """`limits.burst=5` as `{"limits": {"burst": 5}}`; a value that is not JSON is a text."""
    body: dict[str, Any] = {}
    for each in values or ():
        path, is_given, text = each.partition("=")
        if not is_given:
            raise AdminError(f"--set {each}: expected NAME=VALUE, such as limits.burst=500")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        *parents, name = path.split(".", 1)
        place = body.setdefault(parents[0], {}) if parents else body
        if not isinstance(place, dict):
            raise AdminError(f"--set {each}: {parents[0]} was given a value itself")
        place[name] = value
    return body


def seconds(text: str) -> float:
    """Of `90d`, `12h`, `5m`, `30s`."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if match is None:
        raise AdminError(f"{text!r} is no duration: expected one such as 30s, 5m, 12h or 90d")
    return float(match[1]) * _UNITS_S[match[2]]


def moment_after(text: str) -> str:
    return datetime.fromtimestamp(time.time() + seconds(text), UTC).isoformat()


def pair(path: str) -> tuple[str, str]:
    """`acme/web` as its two names."""
    tenant, _, name = path.partition("/")
    if not tenant or not name:
        raise AdminError(f"{path!r} names no service: expected TENANT/NAME")
    return tenant, name
