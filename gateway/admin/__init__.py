"""The admin plane: keys, metrics, health and the documentation, on a listener of its own."""

from __future__ import annotations

from .app import AdminContext, create_app

__all__ = ["AdminContext", "create_app"]
