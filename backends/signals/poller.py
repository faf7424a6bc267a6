"""Owns the watch over model servers: one task a member, which asks it again and again and reports what it said."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Self

from ..errors import UpstreamFailed
from ..interfaces import Backend
from ..model import Health, Member, Signals
from .probe import Probe

SHORTEST_S, LONGEST_S = 0.05, 1.0
_HEALTH_EVERY_S = 1.0
_TIMEOUT_S = 2.0
# A single lost packet is not yet a dead server.
_SILENCES = 2


class Poller:
    """Asks every member each `interval_s` (0.05 to 1 second) and hands what it said to `on_signals`, in the event loop.

    One for each host is enough: hand the signals on to `Pools.update_signals` of all its workers. Moments are
    `time.monotonic()`, which the processes of a host share.
    """

    def __init__(
        self,
        members: Iterable[Member],
        *,
        backend: Backend,
        on_signals: Callable[[Signals], None],
        interval_s: float = 0.25,
    ) -> None:
        if not SHORTEST_S <= interval_s <= LONGEST_S:
            raise ValueError(f"the poll interval is {interval_s} s; expected {SHORTEST_S} to {LONGEST_S} s")
        self._backend = backend
        self._on_signals = on_signals
        self._interval_s = interval_s
        self._members = list(members)
        self._watches: dict[Member, asyncio.Task[None]] = {}
        self._is_running = False

    async def __aenter__(self) -> Self:
        self._is_running = True
        await self.update(self._members)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_running = False
        await self.update(())  # nobody is watched any more when it returns

    @property
    def watched(self) -> list[str]:
        return [member.name for member in self._watches]

    async def update(self, members: Iterable[Member]) -> None:
        """Watch these from now on and nobody else; who is no longer there is not asked once more."""
        self._members = list(members)
        wanted = set(self._members) if self._is_running else set()
        gone = [self._watches.pop(member) for member in list(self._watches) if member not in wanted]
        for task in gone:
            task.cancel()
        for member in wanted - self._watches.keys():
            self._watches[member] = asyncio.create_task(self._watch(member), name=f"watch {member.name}")
        if gone:
            await asyncio.wait(gone)

    async def _watch(self, member: Member) -> None:
        probe = Probe(member, backend=self._backend, timeout_s=_TIMEOUT_S)
        health: Health = "unknown"
        silences, next_s = 0, 0.0
        while True:
            began_s = time.monotonic()
            if began_s >= next_s:
                said = await probe.health()
                silences = silences + 1 if said == "unreachable" else 0
                if said != "unreachable" or silences >= _SILENCES:
                    health = said
                next_s = began_s + _HEALTH_EVERY_S
            signals = await self._scraped(member, probe, health)
            if silences or signals is None:
                next_s = 0.0  # in doubt it is asked again next time
            self._on_signals(signals or Signals(member.name, began_s, self._interval_s, health))
            await asyncio.sleep(max(0.0, began_s + self._interval_s - time.monotonic()))

    async def _scraped(self, member: Member, probe: Probe, health: Health) -> Signals | None:
        """What the server said, be it nothing; None if it did not answer."""
        # The moment of asking, not of the answer: requests sent before it are in what the server counts.
        at_s = time.monotonic()
        try:
            reading = await probe.scrape() if health != "unreachable" else None
        except (UpstreamFailed, TimeoutError):
            return None
        if reading is None:
            return Signals(member.name, at_s, self._interval_s, health)
        return Signals(
            member.name,
            at_s,
            self._interval_s,
            health,
            dialect=reading.dialect,
            missing=reading.missing,
            **reading.values,
        )
