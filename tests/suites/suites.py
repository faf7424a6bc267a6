"""Which clients of others are tried, how one is run, and what its results come to.

Each asks three times: the model server directly, then a gateway that has never heard the questions (`cold`), then the
same gateway again (`warm`).
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import environment

CLIENTS = Path(__file__).parent / "clients"
PHASES = ("direct", "cold", "warm")
_RUN_S = 240.0
# What would ask elsewhere, or make each run compile what it imports.
_NOT_PASSED_ON = ("OPENAI_", "LANGCHAIN_", "LANGSMITH_", "PYTHONDONTWRITEBYTECODE")
_CONSTRAINTS = Path(__file__).parents[2] / "constraints.txt"


@dataclass(frozen=True)
class Suite:
    client: str
    packages: tuple[str, ...]
    script: str
    # Features whose second asking is no hit, and why.
    asked_anew: Mapping[str, str]
    calls_tools: bool = False
    # What makes an answer come to an end before `max_tokens`, after which it would not be stored.
    options: Mapping[str, Any] = field(default_factory=lambda: {"stop": [". "]})

    @property
    def version(self) -> str:
        return ", ".join(f"{package} {_pinned(package, self.script)}" for package in self.packages)


_NEW_IDS = {"structured_few_shot_examples": "another question: the test makes up new ids of tool calls"}
SUITES = (
    Suite("openai-python", ("openai",), "openai_python.py", {"models": "a list is never cached"}),
    Suite("openai-node", ("openai",), "node.mjs", {"models": "a list is never cached"}),
    Suite("ai-sdk", ("ai", "@ai-sdk/openai-compatible"), "node.mjs", {}, calls_tools=True),
    Suite(
        "langchain", ("langchain-openai", "langchain-tests"), "langchain_chat.py", _NEW_IDS, calls_tools=True
    ),
    Suite("llamaindex", ("llama-index-llms-openai-like",), "llamaindex_chat.py", {}),
    Suite("litellm", ("litellm",), "litellm_client.py", {}),
)


@dataclass(frozen=True)
class Line:
    """What came of a feature in one phase."""

    phase: str
    feature: str
    outcome: str
    reason: str
    said: Any
    calls: list[dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """What came of a feature in all phases, `server` being what was asked directly and behind the gateway."""

    client: str
    server: str
    feature: str
    cold: str
    warm: str
    reason: str = ""


@dataclass(frozen=True)
class Place:
    base_url: str
    key: str


async def run(suite: Suite, *, direct: Place, gateway: Place, model: str, folder: Path) -> list[Line]:
    """All lines of its results. Raises `environment.Unavailable`; fails if the script itself does."""
    results = folder / f"{suite.client}.jsonl"
    places = {"direct": direct, "cold": gateway, "warm": gateway}
    targets = [
        {"phase": phase, "base_url": places[phase].base_url, "key": places[phase].key} for phase in PHASES
    ]
    plan = {
        "client": suite.client,
        "results": str(results),
        "model": model,
        "options": suite.options,
        "targets": targets,
    }
    command = await asyncio.to_thread(_command, suite, folder)
    process = await asyncio.create_subprocess_exec(
        *command,
        json.dumps(plan),
        cwd=folder,
        env=_environment(),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        async with asyncio.timeout(_RUN_S):
            said, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode == 0, said.decode()[-3000:]
    return [Line(**json.loads(line)) for line in results.read_text(encoding="utf-8").splitlines()]


def judged(suite: Suite, server: str, lines: list[Line]) -> tuple[list[Row], list[str]]:
    """The table's rows, and what is wrong: whatever the server itself does, the gateway has to."""
    rows: list[Row] = []
    faults: list[str] = []
    by_feature: dict[str, dict[str, Line]] = {}
    for line in lines:
        by_feature.setdefault(line.feature, {})[line.phase] = line
    for feature, by_phase in by_feature.items():
        direct = by_phase["direct"]
        row: Callable[..., Row] = lambda *cells, feature=feature: Row(  # noqa: E731
            suite.client, server, feature, *cells
        )
        if direct.outcome == "skipped":
            rows.append(row("–", "–", "the suite skips it: " + direct.reason.removeprefix("Skipped: ")))
            continue
        if direct.outcome == "failed":
            rows.append(row("–", "–", "fails at the model server itself"))
            continue
        if not direct.calls:
            continue  # a test of the suite's own form
        cold, warm = by_phase["cold"], by_phase["warm"]
        rows.append(
            row(
                "yes" if cold.outcome == "passed" else "no",
                _warmth(warm),
                suite.asked_anew.get(feature, ""),
            )
        )
        faults += [f"{feature}: {fault}" for fault in _faults(suite, cold, warm)]
    return rows, faults


def _faults(suite: Suite, cold: Line, warm: Line) -> list[str]:
    faults = [
        f"passes at the server, not {line.phase}: {line.reason} {line.calls}"
        for line in (cold, warm)
        if line.outcome != "passed"
    ]
    if faults or warm.feature in suite.asked_anew:
        return faults
    if cold.calls[0]["x-cache"] != "MISS":
        faults.append(f"was not asked of the server: {cold.calls}")
    if _warmth(warm) != "hit":
        faults.append(f"was not answered from the cache: {warm.calls}, cold {cold.calls}")
    if cold.said != warm.said:
        faults.append(f"cold {cold.said!r}, warm {warm.said!r}")
    return faults


def _warmth(line: Line) -> str:
    if line.outcome != "passed":
        return "no"
    return "hit" if line.calls and all(call["x-cache"] == "HIT-EXACT" for call in line.calls) else "yes"


def _command(suite: Suite, folder: Path) -> list[str]:
    script = CLIENTS / suite.script
    if script.suffix == ".mjs":
        # Node looks for packages beside the script.
        if not (folder / "node_modules").exists():
            (folder / "node_modules").symlink_to(environment.node_modules())
        return [shutil.which("node") or "node", str(shutil.copy(script, folder))]
    interpreter = sys.executable if suite.client == "openai-python" else str(environment.python())
    return [interpreter, str(script)]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_PASSED_ON)}
    quiet = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_TELEMETRY": "False",
        "LANGSMITH_TRACING": "false",
    }
    return kept | quiet | {"NO_PROXY": "127.0.0.1", "PYTHONUTF8": "1"}


def _pinned(package: str, script: str) -> str:
    if script.endswith(".mjs"):
        locked = json.loads(environment.NODE_LOCK.read_text(encoding="utf-8"))
        return str(locked["packages"][f"node_modules/{package}"]["version"])
    file = _CONSTRAINTS if script == "openai_python.py" else environment.PYTHON_LOCK
    found = re.search(rf"^{re.escape(package)}==(\S+)$", file.read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, f"{package} is not in {file.name}"
    return found[1]
