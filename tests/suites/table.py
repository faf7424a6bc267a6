"""`docs/compatibility.md`, as the last run of `python -m tests.suites` wrote it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from .suites import SUITES, Row

FILE = Path(__file__).parents[2] / "docs" / "compatibility.md"
_HEAD = """\
# Compatibility

Made by `python -m tests.suites`; `make test-full` runs the same and compares.

What clients that others wrote can do at a model server, they can do at Echogate with nothing changed but the base URL.
Each asks three times: the model server directly, then an Echogate that has never heard the questions (cold), then the
same one again (warm). `hit` means that every call was answered from the cache, and that the application saw the same.

Two servers: a real llama.cpp with SmolLM2-135M, and a scripted one that calls tools and fills in schemas as it is
told, which so small a model does not. What fails at the server itself is not tried any further: the model is too
small, or the server lacks it. All of LangChain's standard tests are listed, the skipped ones too.

| client | packages |
|---|---|
"""
_ROWS = """
| client | server | feature | cold | warm | where not, why |
|---|---|---|---|---|---|
"""


def versions() -> list[str]:
    return [f"| {suite.client} | {suite.version} |" for suite in SUITES]


def rendered(rows: Iterable[Row]) -> str:
    lines = [
        f"| {row.client} | {row.server} | `{row.feature}` | {row.cold} | {row.warm} | {row.reason} |"
        for row in rows
    ]
    return _HEAD + "\n".join(versions()) + "\n" + _ROWS + "\n".join(lines) + "\n"


def features(document: str, *, client: str, server: str) -> list[str]:
    """What the document lists of one trial."""
    return re.findall(rf"^\| {client} \| {re.escape(server)} \| `(.+?)` \|", document, re.MULTILINE)
