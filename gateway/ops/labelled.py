"""Reads files of labelled questions or answers, one JSON object a line; says which line is not what was expected."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any


class BadFile(Exception):
    """A line is not what was expected; says which and why."""


def records(path: Path, needed: Sequence[str]) -> list[tuple[int, dict[str, Any]]]:
    """Each with the number of its line. Raises `BadFile`."""
    found = []
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadFile(f"{path} cannot be read: {error}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise BadFile(f"{path}, line {number}: no JSON ({error})") from error
        if not isinstance(record, dict) or any(name not in record for name in needed):
            raise BadFile(f"{path}, line {number}: an object with {', '.join(needed)} was expected")
        found.append((number, record))
    if not found:
        raise BadFile(f"{path} has no lines")
    return found
