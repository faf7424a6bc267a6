"""The command `echogate`: checks that it runs among its own packages, then hands over to commands/main.py."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_LEAVES = ("cache", "backends", "auth")


def main() -> None:
    here = Path(__file__).resolve().parent.parent
    if foreign := [f"`{leaf}` comes from {origin}" for leaf, origin in foreign_packages(here).items()]:
        sys.exit(
            f"error: Echogate's packages must lie together in {here}, but {'; '.join(foreign)}. "
            "Install Echogate in an environment of its own."
        )
    # Only now: with a foreign `cache` in the way these imports fail in ways that nobody could read.
    from .commands.main import app

    app()


def foreign_packages(here: Path) -> dict[str, str]:
    """The leaves that Python would import from elsewhere, with where from."""
    found = {}
    for leaf in _LEAVES:
        spec = importlib.util.find_spec(leaf)
        origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
        if origin is None or origin.parent.parent != here:
            found[leaf] = str(origin or "nowhere")
    return found
