"""Lets a long piece of work leave the loop to others between its steps."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")

_TURN_S = 0.001


async def in_turns(steps: Iterable[T]) -> list[T]:
    """What each step gives. Whenever they have taken a millisecond, others have their turn; raises what they raise."""
    found = []
    until = time.monotonic() + _TURN_S
    for each in steps:
        found.append(each)
        if time.monotonic() > until:
            await asyncio.sleep(0)
            until = time.monotonic() + _TURN_S
    return found
