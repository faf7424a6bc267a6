"""This host's one watch over the model servers: asks them, hands what they say to all workers, and keeps the last
minutes of it for diagnosis and metrics."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backends import Backend, Finding, Member, Poller, Signals, diagnose

from ..telemetry import metrics_table as table
from .effective import Specs

_GATHER_S = 0.02  # what arrives this close together goes out in one message
_KEPT, _KEPT_EVERY_S = 120, 0.5


class PoolWatch(Collector):
    """`send` gets signals in batches, on the event loop. Use it as a context."""

    def __init__(
        self,
        specs: Specs,
        *,
        backend: Backend,
        interval_s: float,
        send: Callable[[Sequence[Signals]], None],
    ) -> None:
        self._send = send
        self._backend = backend
        self._poller = Poller(_members(specs), backend=backend, on_signals=self._hear, interval_s=interval_s)
        self._batch: list[Signals] = []
        self._history: dict[str, deque[Signals]] = {}
        self._latest: dict[str, Signals] = {}

    async def __aenter__(self) -> Self:
        await self._poller.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._poller.__aexit__(None, None, None)
        await self._backend.aclose()

    async def follow(self, specs: Specs) -> None:
        await self._poller.update(_members(specs))
        gone = self._latest.keys() - set(self._poller.watched)
        for member in gone:
            self._latest.pop(member, None)
            self._history.pop(member, None)

    def findings(self) -> list[Finding]:
        """What the servers are short of, by the last minute of what they said."""
        return [finding for history in self._history.values() for finding in diagnose(list(history))]

    @property
    def latest(self) -> list[Signals]:
        return list(self._latest.values())

    def collect(self) -> Iterable[Metric]:
        """For Prometheus."""
        age, missing = _gauge(table.SCRAPE_AGE), _gauge(table.SIGNAL_MISSING)
        requests, kv = _gauge(table.ENGINE_REQUESTS), _gauge(table.KV_USAGE)
        now_s = time.monotonic()
        for member, said in self._latest.items():
            for name in said.missing:
                missing.add_metric([member, name], 1)
            if (spoken := self._last_with_figures(member)) is not None:
                age.add_metric([member], now_s - spoken.at_s)
            if said.running is not None:
                requests.add_metric([member, "running"], said.running)
            if said.waiting is not None:
                requests.add_metric([member, "waiting"], said.waiting)
            if said.kv_usage is not None:
                kv.add_metric([member], said.kv_usage)
        return [age, missing, requests, kv]

    def _last_with_figures(self, member: str) -> Signals | None:
        latest = self._latest[member]
        if latest.running is not None:
            return latest
        return next((said for said in reversed(self._history[member]) if said.running is not None), None)

    def _hear(self, signals: Signals) -> None:
        self._latest[signals.member] = signals
        history = self._history.setdefault(signals.member, deque(maxlen=_KEPT))
        if not history or signals.at_s - history[-1].at_s >= _KEPT_EVERY_S:
            history.append(signals)
        self._batch.append(signals)
        if len(self._batch) == 1:
            asyncio.get_running_loop().call_later(_GATHER_S, self._flush)

    def _flush(self) -> None:
        batch, self._batch = self._batch, []
        self._send(batch)


def _members(specs: Specs) -> list[Member]:
    return [member for spec in specs.values() for member in spec.pool.members]


def _gauge(fact: table.MetricFact) -> GaugeMetricFamily:
    return GaugeMetricFamily(fact.name, fact.meaning, labels=fact.labels)
