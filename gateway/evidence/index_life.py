"""Opens a worker's index: from the host's snapshot or the store, caught up, and kept up with what others store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cache import (
    EmbedQueue,
    Follower,
    NoEmbedder,
    RedisEntries,
    Reembedding,
    Snapshot,
    SnapshotOwner,
    SnapshotRefused,
    Snapshots,
    Spaces,
)

from ..host.runtime import Runtime
from ..settings.reading import Settings
from ..store.client import StoreClient
from ..telemetry import metrics_table as table
from .background import in_background
from .index_numbers import index_numbers
from .next_embedder import ReembeddingMetrics, open_reembedding

_log = structlog.get_logger("gateway.evidence.index_life")

# How long a start waits for the index to be caught up with the store.
_CATCH_UP_S = 10.0
# A blocking read of the change streams is silent for as long as nothing changes.
_READER_SILENCE_S = 30.0
# Of what keeps a snapshot from being used: these are no faults.
_USUAL = frozenset({"absent", "other-embedder", "other-format"})


@dataclass(frozen=True, slots=True)
class IndexLife:
    """`follower` and `reembedding` are None without an embedder. `snapshots` counts what became of them: "restored",
    "written", or why not."""

    spaces: Spaces
    follower: Follower | None = None
    snapshots: Counter[str] = field(default_factory=Counter)
    reembedding: Reembedding | None = None
    snapshot_path: Path | None = None


async def open_index(
    settings: Settings,
    runtime: Runtime,
    store: StoreClient,
    spaces: Spaces,
    embed: EmbedQueue | NoEmbedder,
    entries: RedisEntries,
    stack: AsyncExitStack,
) -> IndexLife:
    if isinstance(embed, NoEmbedder):
        return IndexLife(spaces)
    reader = await stack.enter_async_context(
        StoreClient.open(runtime.cache_url, silence_s=_READER_SILENCE_S, name="cache changes")
    )
    outcomes: Counter[str] = Counter()
    snapshots = _snapshots(settings, runtime, embed, entries, outcomes)
    snapshot = None if snapshots is None else await _restored(snapshots, outcomes)
    for frozen in snapshot.spaces if snapshot is not None else ():
        spaces.thaw(frozen)
    follower = Follower(
        reader,
        entries,
        spaces,
        secret=runtime.secret,
        fingerprint=embed.fingerprint,
        since=None if snapshot is None else snapshot.contents,
    )
    in_background(follower.run, stack)

    async def reload() -> None:
        await spaces.reload(follower.load)

    in_background(reload, stack)
    try:
        async with asyncio.timeout(_CATCH_UP_S):
            await follower.caught_up.wait()
            await spaces.settle(within_s=_CATCH_UP_S)
    except TimeoutError:
        _log.warning("the index is not yet caught up with the store; older entries are found once it is")
    else:
        _log.info("the index is there", vectors=len(spaces), made_from_store=follower.rebuilds["start"] > 0)
    if snapshots is not None:
        await stack.enter_async_context(snapshots.kept(spaces, follower))
    reembedding = await open_reembedding(settings, runtime, store, embed, entries, follower, stack)
    path = None if snapshots is None else snapshots.path
    return IndexLife(spaces, follower, outcomes, reembedding, path)


def _snapshots(
    settings: Settings, runtime: Runtime, embed: EmbedQueue, entries: RedisEntries, outcomes: Counter[str]
) -> Snapshots | None:
    every_s = settings.cache.snapshot_every_s
    if every_s is None:
        return None

    def told(outcome: str) -> None:
        if outcome != "written" and outcome not in outcomes:
            _log.warning("no snapshot of the index could be written", reason=outcome, folder=str(folder))
        outcomes[outcome] += 1

    folder = settings.data_dir / "index"
    owner = SnapshotOwner(runtime.secret, entries.seal, embed.fingerprint, embed.dimension)
    return Snapshots(folder, owner, every_s=every_s, told=told)


async def _restored(snapshots: Snapshots, outcomes: Counter[str]) -> Snapshot | None:
    try:
        snapshot = await snapshots.read()
    except SnapshotRefused as refused:
        outcomes[refused.why] += 1
        tell = _log.info if refused.why in _USUAL else _log.warning
        tell("the index is made from the store: there is no snapshot to start from", reason=str(refused))
        return None
    outcomes["restored"] += 1
    return snapshot


class IndexMetrics(Collector):
    """Read whenever the registry's numbers are."""

    def __init__(self, life: IndexLife, registry: CollectorRegistry, *, worker: int) -> None:
        self._life = life
        self._worker = str(worker)
        registry.register(self)
        if life.reembedding is not None:
            ReembeddingMetrics(life.reembedding, registry)

    def collect(self) -> Iterable[Metric]:
        snapshots = CounterMetricFamily(table.SNAPSHOTS.name, table.SNAPSHOTS.meaning, labels=("outcome",))
        for outcome, count in self._life.snapshots.items():
            snapshots.add_metric([outcome], count)
        return [snapshots, *index_numbers(self._life.spaces.state()), *self._following()]

    def _following(self) -> Iterable[Metric]:
        follower = self._life.follower
        if follower is None:
            return
        lag = GaugeMetricFamily(table.FOLLOW_LAG.name, table.FOLLOW_LAG.meaning, labels=("worker",))
        lag.add_metric([self._worker], follower.lag_s)
        behind = GaugeMetricFamily(table.FOLLOW_BEHIND.name, table.FOLLOW_BEHIND.meaning, labels=("worker",))
        behind.add_metric([self._worker], follower.items_behind)
        rebuilt = CounterMetricFamily(
            table.SHARDS_REBUILT.name, table.SHARDS_REBUILT.meaning, labels=("reason",)
        )
        for reason, count in follower.rebuilds.items():
            rebuilt.add_metric([reason], count)
        yield from (lag, behind, rebuilt)
