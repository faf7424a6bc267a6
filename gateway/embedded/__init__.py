"""What Echogate starts itself when nothing else is configured: the store."""

from __future__ import annotations

from .store_process import StoreProcess, StoreProcessError

__all__ = ["StoreProcess", "StoreProcessError"]
