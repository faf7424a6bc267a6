"""The documents keep up with the code: every setting, body field, reason and error code is in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from cache.acceptance.vetoes import VETOES
from cache.evidence import WITHHELD
from gateway.cues import DEFAULTS
from gateway.eligibility import FIELDS, Kind
from gateway.settings.errors import setting_paths
from gateway.settings.pools import MemberSettings, PoolTimeouts
from gateway.settings.reading import Settings

ROOT = Path(__file__).parent.parent
CONFIGURATION, CACHING, API = (
    (ROOT / "docs" / name).read_text(encoding="utf-8")
    for name in ("configuration.md", "caching.md", "api.md")
)
_SECTIONS = {
    "server",
    "admin",
    "store",
    "upstream",
    "cache",
    "cache.answers",
    "cache.audits",
    "cache.cues",
    "cache.index",
    "cache.embedder",
    "cache.quota",
    "limits",
    "telemetry",
}
# The calls that name a reason, with the number of the argument that does (a negative one: any of them).
_NAMING = {
    "Plan": -1,
    "Miss": 0,
    "_miss": 0,
    "_failed": 1,
    "UnfitText": 0,
    "Verdict": 1,
    "outcome": 3,
    "Fuzzy": 2,
    "Asked": 2,
}


def results(expression: ast.expr | None) -> Iterator[str]:
    """The strings that an expression can come to."""
    match expression:
        case ast.Constant(value=str() as word):
            yield word
        case ast.IfExp(body=one, orelse=other):
            yield from [*results(one), *results(other)]
        case ast.BoolOp(values=values):
            for value in values:
                yield from results(value)


def reasons_named_in(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in _NAMING:
                at = _NAMING[name]
                for argument in node.args if at < 0 else node.args[at : at + 1]:
                    yield from results(argument)
                for keyword in node.keywords:
                    yield from results(keyword.value)
            case ast.FunctionDef(name="_skip_semantic" | "_why_not"):
                for inner in ast.walk(node):
                    if isinstance(inner, ast.Return):
                        yield from results(inner.value)
            case ast.Assign(targets=[ast.Name(id="reason" | "skip")]):
                yield from results(node.value)
            case (
                ast.AnnAssign(target=ast.Name(id="skip_reason")) | ast.keyword(arg="exact_reason" | "reason")
            ):
                yield from results(node.value)


def all_reasons() -> set[str]:
    dialects = [f"gateway/dialects/{name}.py" for name in ("turns", "completions", "responses")]
    files = [
        *dialects,
        "gateway/eligibility.py",
        "gateway/pipeline.py",
        "cache/lookup.py",
        "cache/acceptance/score.py",
    ]
    files += [
        "cache/embed/readable.py",
        "cache/embed/embed_queue.py",
        "cache/embed/http_embedder.py",
        "cache/evidence/ruling.py",
    ]
    named = {reason for file in files for reason in reasons_named_in(ROOT / file)}
    effects = {
        f"side-effect-{name.replace('_', '-')}" for name, kind in FIELDS.items() if kind is Kind.SIDE_EFFECT
    }
    return named | effects | WITHHELD | set(DEFAULTS) | {f"veto-{name}" for name in VETOES}


def all_codes() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "gateway").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        found |= set(re.findall(r'\bcode="(\w+)"', text))
        found |= set(re.findall(r'^    status, type, code = \d+, "\w+", "(\w+)"', text, flags=re.MULTILINE))
    return found


def test_every_setting_is_documented() -> None:
    settings = set(setting_paths(Settings)) - _SECTIONS
    settings |= {*MemberSettings.model_fields, *PoolTimeouts.model_fields, "members", "timeouts"}
    assert [name for name in sorted(settings) if f"`{name}`" not in CONFIGURATION] == []


def test_every_body_field_is_documented() -> None:
    assert [name for name in FIELDS if f"`{name}`" not in CACHING] == []


def test_the_reasons_are_found_in_the_code() -> None:
    assert {"absent", "shared", "no-store", "mode-exact", "no-text", "too-long", "too-old"} <= all_reasons()


def test_every_cache_reason_is_documented() -> None:
    assert [reason for reason in sorted(all_reasons()) if f"`{reason}`" not in CACHING] == []


def test_every_error_code_is_documented() -> None:
    assert "model_not_found" in all_codes()
    assert [code for code in sorted(all_codes()) if f"`{code}`" not in API] == []


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]), ids=lambda path: path.name
)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8"))
    inner = [link for link in links if "://" not in link]
    assert [link for link in inner if not (path.parent / link).exists()] == []
