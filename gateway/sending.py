"""Sends a request to a pool and notes on the timeline what became of each attempt, whatever way it ends."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from backends import Attempt, BackendError, Exchange, Pools, UpstreamRequest, Version

from .answers import Reading
from .errors import ApiError, from_backend
from .notes import UpstreamSpans
from .telemetry.timeline import Timeline


@asynccontextmanager
async def sent(
    pools: Pools,
    version: Version,
    request: UpstreamRequest,
    *,
    deadline_s: float,
    upstream: UpstreamSpans,
    timeline: Timeline,
    reading: Callable[[], Reading | None],
) -> AsyncIterator[Exchange]:
    """The reply of the least loaded server. `reading` says at the end what it came to (None: nothing that is known).

    Raises ApiError.
    """
    attempts: list[Attempt] = []
    error: str | None = "cancelled"
    try:
        exchange = await pools.open(version, request, deadline_s=deadline_s, attempts=attempts)
        async with exchange:
            timeline.backend = exchange.member
            yield exchange
        error = None
    except BackendError as failure:
        refusal = from_backend(failure)
        error = refusal.code
        raise refusal from failure
    except ApiError as failure:
        error = failure.code
        raise
    finally:
        upstream.note(attempts, version.model, reading(), error=error)
