"""Tries every suite and writes `docs/compatibility.md`: `python -m tests.suites`. 1 says there is a fault."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from .parts import TRIALS, running_parts
from .suites import Row
from .table import FILE, rendered


async def main() -> int:
    rows: list[Row] = []
    faults: list[str] = []
    with tempfile.TemporaryDirectory(prefix="echogate-suites-") as name:
        async with running_parts(Path(name)) as parts:
            for suite, server in TRIALS:
                start_s = time.monotonic()
                folder = Path(name) / f"{suite.client}-{server}"
                folder.mkdir()
                found, wrong = await parts.tried(suite, server, folder=folder)
                rows += found
                faults += [f"{suite.client}, {server}: {each}" for each in wrong]
                print(f"{suite.client}, {server}: {time.monotonic() - start_s:.0f} s", flush=True)
    FILE.write_text(rendered(rows), encoding="utf-8")
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
