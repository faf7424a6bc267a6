"""The house rules that can be read off the imports: who may know whom, and by which door."""

from __future__ import annotations

import ast
import functools
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LEAVES = ("auth", "backends", "cache")
PACKAGES = (*LEAVES, "gateway")
LONGEST_FILE = 300


def files(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


@functools.cache
def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def absolute_imports(file: Path) -> Iterator[tuple[int, str]]:
    """The line and the module of each absolute import, the ones inside functions and `if TYPE_CHECKING` too."""
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield node.lineno, name.name
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, node.module or ""


def found(package: str, *, forbidden: frozenset[str]) -> list[str]:
    """Where the package imports, by whichever path, from one of the forbidden top-level packages."""
    return [
        f"{file.relative_to(ROOT)}:{line} imports {module}"
        for file in files(package)
        for line, module in absolute_imports(file)
        if module.split(".")[0] in forbidden
    ]


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_looks_neither_up_nor_sideways(leaf: str) -> None:
    assert found(leaf, forbidden=frozenset(PACKAGES) - {leaf}) == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_a_leaf_returns_facts_and_does_not_trace(leaf: str) -> None:
    assert (
        found(leaf, forbidden=frozenset({"opentelemetry", "structlog", "logging", "prometheus_client"})) == []
    )


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_inside_a_package_are_relative(package: str) -> None:
    assert found(package, forbidden=frozenset({package})) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_nothing_that_is_installed_knows_tests_or_benchmarks(package: str) -> None:
    assert found(package, forbidden=frozenset({"tests", "bench", "pytest"})) == []


def test_the_gateway_enters_leaves_by_the_front_door() -> None:
    around = [
        f"{file.relative_to(ROOT)}:{line} imports {module}"
        for file in files("gateway")
        for line, module in absolute_imports(file)
        if module.split(".")[0] in LEAVES and module not in LEAVES
    ]
    assert around == []


@pytest.mark.parametrize("leaf", LEAVES)
def test_what_the_gateway_takes_from_a_leaf_is_what_the_leaf_offers(leaf: str) -> None:
    offered = set(importlib.import_module(leaf).__all__)
    taken = {
        name.name
        for file in files("gateway")
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.ImportFrom) and node.level == 0 and node.module == leaf
        for name in node.names
    }
    assert taken - offered == set()


def test_no_file_is_longer_than_a_reader_can_hold() -> None:
    lengths = {
        str(file.relative_to(ROOT)): len(file.read_text(encoding="utf-8").splitlines())
        for folder in (*PACKAGES, "tests", "bench")
        for file in files(folder)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_every_file_says_first_what_it_is_for(package: str) -> None:
    silent = [str(file.relative_to(ROOT)) for file in files(package) if not ast.get_docstring(parsed(file))]
    assert silent == []
