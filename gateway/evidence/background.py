"""Owns work that runs behind the path for as long as its opener does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

import structlog

_log = structlog.get_logger("gateway.evidence.background")

_AFTER_FAULT_S = 1.0


def in_background(work: Callable[[], Coroutine[None, None, None]], stack: AsyncExitStack) -> None:
    """Begun now, cancelled and awaited when the stack unwinds."""
    task = asyncio.create_task(_lasting(work))

    async def stop() -> None:
        task.cancel()
        await asyncio.wait((task,))

    stack.push_async_callback(stop)


async def _lasting(work: Callable[[], Coroutine[None, None, None]]) -> None:
    """A fault in what runs behind the path must not end it for good, nor be silent."""
    while True:
        try:
            await work()
        except Exception as error:  # the boundary of a task that nobody awaits
            _log.error(
                "background work failed and is begun again",
                work=work.__qualname__,
                error=type(error).__name__,
            )
        await asyncio.sleep(_AFTER_FAULT_S)
