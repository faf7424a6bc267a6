"""`python -m gateway` is `echogate`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":  # spawned workers import this file again
    main()
