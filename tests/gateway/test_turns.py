"""A long piece of work leaves the loop to others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from gateway.data.turns import in_turns


def steps(count: int, *, took_s: float) -> Iterator[int]:
    for number in range(count):
        until = time.monotonic() + took_s
        while time.monotonic() < until:
            pass
        yield number


async def test_others_have_their_turn_between_long_steps() -> None:
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    assert await in_turns(steps(20, took_s=0.002)) == list(range(20))
    task.cancel()
    assert turns >= 19
