"""Where the clients of others are installed: folders outside the checkout, `python -m tests.suites.environment`.

Each is named after what is locked and for which interpreter, so that a changed lock makes a new one and an unchanged
lock costs nothing.
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
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
PYTHON_LOCK = HERE / "clients.lock.txt"
NODE_LOCK = HERE / "package-lock.json"
_INSTALL_S = 600.0


class Unavailable(Exception):
    """What this machine lacks, for whoever reads why a test was skipped."""


def python() -> Path:
    """The interpreter of the Python clients' environment, made on first use (400 MB, a minute)."""
    key = PYTHON_LOCK.read_bytes() + sys.version.encode()
    return _installed(key, _install_python) / "bin" / "python"


def node_modules() -> Path:
    """The folder of the Node clients, made on first use (45 MB). Raises `Unavailable` where there is no Node."""
    found = shutil.which("node"), shutil.which("npm")
    if None in found:
        raise Unavailable("node and npm are not installed")
    return _installed(NODE_LOCK.read_bytes(), _install_node) / "node_modules"


def _installed(key: bytes, install: Callable[[Path], None]) -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-suites"
    folder = root / hashlib.sha256(key).hexdigest()[:16]
    root.mkdir(parents=True, exist_ok=True)
    with _locked(folder.with_suffix(".lock")):
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)  # what an interrupted run left
            install(folder)
            (folder / "installed").touch()
    return folder


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install_python(folder: Path) -> None:
    _run(sys.executable, "-m", "venv", str(folder))
    # Without a resolver, and byte code where it is used first: most of it is never imported.
    options = (
        "--quiet",
        "--no-deps",
        "--no-compile",
        "--only-binary=:all:",
        "--requirement",
        str(PYTHON_LOCK),
    )
    _run(str(folder / "bin" / "python"), "-m", "pip", "install", *options)


def _install_node(folder: Path) -> None:
    folder.mkdir()
    for file in ("package.json", "package-lock.json"):
        shutil.copy(HERE / file, folder)
    _run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(folder))


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_S, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command[:4])} … failed:\n{done.stderr[-3000:]}")


def main() -> None:
    for name, install in (("Python", python), ("Node", node_modules)):
        start_s = time.monotonic()
        try:
            print(f"{name} clients: {install()} ({time.monotonic() - start_s:.0f} s)", flush=True)
        except Unavailable as missing:
            print(f"THE {name.upper()} CLIENTS ARE NOT TESTED: {missing}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
