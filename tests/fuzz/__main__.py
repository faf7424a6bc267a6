"""`python -m tests.fuzz TARGET [libFuzzer's options]`: feeds a target what coverage suggests, until it fails."""

from __future__ import annotations

import sys

import atheris

with atheris.instrument_imports(include=["backends", "gateway"]):
    from tests.fuzz.targets import TARGETS


def main() -> None:
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"error: expected one of {', '.join(TARGETS)}, found {name!r}")
    atheris.Setup(sys.argv, TARGETS[name])
    atheris.Fuzz()


main()
