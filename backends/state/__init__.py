"""Where admins' changes of the pools are kept."""

from .memory import MemoryPoolState
from .store_state import StorePoolState

__all__ = ["MemoryPoolState", "StorePoolState"]
