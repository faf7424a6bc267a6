"""Overlays kept in this process only: for tests, and for one worker without a store."""

from __future__ import annotations

from collections.abc import Mapping

from ..interfaces import Edit
from ..overlay import Overlay


class MemoryPoolState:
    """The `PoolState` without a store."""

    def __init__(self) -> None:
        self._overlays: dict[str, Overlay] = {}

    async def read(self) -> Mapping[str, Overlay]:
        return dict(self._overlays)

    async def change(self, model: str, edit: Edit) -> Overlay:
        changed = edit(self._overlays.get(model, Overlay()))
        if changed == Overlay():
            self._overlays.pop(model, None)
        else:
            self._overlays[model] = changed
        return changed
