"""Says which version of Echogate runs."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("echogate")
except PackageNotFoundError:  # run from a checkout that was not installed
    VERSION = "0.0.0+checkout"
