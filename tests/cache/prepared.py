"""The prepared MiniLM folder that tests share: built once for each recipe, kept outside the repository."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
from pathlib import Path

from cache import prepare
from cache.embed import graph, minilm


@functools.cache
def prepared_model() -> Path:
    """Downloads the weights the first time (80 MB), then a few seconds to build. Safe in parallel test runs."""
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-tests"
    root.mkdir(parents=True, exist_ok=True)
    source = hashlib.sha256(Path(graph.__file__).read_bytes()).hexdigest()[:8]
    folder = root / f"{minilm.RECIPE}-{source}-{minilm.cpu_class()}"
    with (root / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare(folder)
    return folder
