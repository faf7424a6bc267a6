"""Has what is kept embedded anew, where another embedder is to follow or has followed, and tells how far that is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import AsyncExitStack

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cache import EmbedQueue, Follower, ModelError, NextVectors, RedisEntries, Reembedding

from ..host.runtime import Runtime
from ..settings.reading import Settings
from ..store.client import StoreClient
from ..telemetry import metrics_table as table
from .background import in_background
from .embedding import opened_embedder

_log = structlog.get_logger("gateway.evidence.next_embedder")

_NEXT_EVERY_S, _SERVING_EVERY_S = 60.0, 10.0
_TELL_EVERY_S = 10.0


async def open_reembedding(
    settings: Settings,
    runtime: Runtime,
    store: StoreClient,
    embed: EmbedQueue,
    entries: RedisEntries,
    follower: Follower,
    stack: AsyncExitStack,
) -> Reembedding | None:
    """Towards `cache.embedder.next` where that is set, by the first worker of each host. Else towards the one that
    serves, where the store holds vectors of another."""
    is_serving = settings.cache.embedder.next is None
    if not is_serving:
        following = await _open_next(settings, runtime, embed)
        if following is None:
            return None
        stack.callback(following.close)
        embed = following
    vectors = NextVectors(store, entries, secret=runtime.secret, fingerprint=embed.fingerprint)
    reembedding = Reembedding(
        store,
        vectors,
        embed,
        secret=runtime.secret,
        is_serving=is_serving,
        pending=(lambda: follower.passed_over) if is_serving else (lambda: 1 + follower.applied),
        every_s=_SERVING_EVERY_S if is_serving else _NEXT_EVERY_S,
    )
    in_background(reembedding.run, stack)

    async def tell() -> None:
        await _tell(reembedding)

    in_background(tell, stack)
    return reembedding


async def _open_next(settings: Settings, runtime: Runtime, embed: EmbedQueue) -> EmbedQueue | None:
    wanted = settings.cache.embedder.next
    if wanted is None or wanted.kind == "none" or runtime.worker != 0:
        return None
    try:
        embedder = await asyncio.to_thread(opened_embedder, settings, wanted)
    except ModelError as error:
        _log.error("the embedder to follow was refused", reason=str(error))
        return None
    if embedder.fingerprint == embed.fingerprint:
        _log.warning("cache.embedder.next is the embedder that serves: there is nothing to do")
        embedder.close()
        return None
    _log.info(
        "another embedder is to follow",
        serving=embed.fingerprint,
        numbers=embed.dimension,
        following=embedder.fingerprint,
        numbers_then=embedder.dimension,
    )
    return EmbedQueue(embedder)


async def _tell(reembedding: Reembedding) -> None:
    progress, told = reembedding.progress, ("idle", 0)
    while True:
        now = (progress.state, progress.done)
        if now != told and progress.state in ("embedding", "settling", "done"):
            _log.info(
                "embedding anew",
                state=progress.state,
                done=progress.done,
                left=progress.left,
                unfit=progress.unfit,
            )
            told = now
        await asyncio.sleep(_TELL_EVERY_S)


class ReembeddingMetrics(Collector):
    """Read whenever the registry's numbers are."""

    def __init__(self, reembedding: Reembedding, registry: CollectorRegistry) -> None:
        self._progress = reembedding.progress
        registry.register(self)

    def collect(self) -> Iterable[Metric]:
        left = GaugeMetricFamily(table.REEMBED_LEFT.name, table.REEMBED_LEFT.meaning)
        left.add_metric([], self._progress.left)
        done = CounterMetricFamily(table.REEMBEDDED.name, table.REEMBEDDED.meaning, labels=("outcome",))
        for outcome in ("done", "unfit", "settled"):
            done.add_metric([outcome], getattr(self._progress, outcome))
        return [left, done]
