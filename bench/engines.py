"""Model servers in simulated time: continuous batching as an inference engine does it, no sockets, no waiting.

A running request gets tokens at `speed / (1 + running / KNEE)`: the batch as a whole gets faster with its size, each of
its requests slower, in the proportion measured on a real vLLM (129 tokens/s alone, 86 each with 8 at once).
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

KNEE = 16
SLOTS = 32


@dataclass(slots=True)
class Job:
    tokens: float
    on_start: Callable[[], None]
    on_end: Callable[[], None]


@dataclass(slots=True)
class Engine:
    """`speed` is tokens per second of a request that runs alone."""

    speed: float
    is_failing: bool = False
    waiting: deque[Job] = field(default_factory=deque)
    _running: list[tuple[float, int, Job]] = field(default_factory=list)  # by `_given` at which each ends
    _given: float = 0.0  # tokens that a request would have got that ran from the beginning
    _at_s: float = 0.0
    _numbers: int = 0

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def capacity(self) -> float:
        """Tokens per second with all slots taken."""
        return SLOTS * self._rate(SLOTS)

    def accept(self, job: Job, now_s: float) -> None:
        self._advance(now_s)
        self.waiting.append(job)
        self._fill()

    def next_end_s(self) -> float | None:
        if not self._running:
            return None
        return self._at_s + (self._running[0][0] - self._given) / self._rate(self.running)

    def finish_next(self, now_s: float) -> None:
        self._advance(now_s)
        _, _, job = heapq.heappop(self._running)
        self._fill()
        job.on_end()

    def s_per_token(self) -> float:
        """What one more request would wait and run for, per token, were all that are open of its length."""
        there = self.running + len(self.waiting) + 1
        return max(1.0, there / SLOTS) / self._rate(min(there, SLOTS))

    def would_take_s(self, tokens: float, now_s: float) -> float:
        """Until one more request of this length would end, if nobody else came: plays everything to that end."""
        self._advance(now_s)
        ends = [(end, False) for end, _, _ in self._running]
        queue = deque([*((job.tokens, False) for job in self.waiting), (tokens, True)])
        given, took_s = self._given, 0.0
        heapq.heapify(ends)
        while True:
            while queue and len(ends) < SLOTS:
                length, is_it = queue.popleft()
                heapq.heappush(ends, (given + length, is_it))
            end, is_it = ends[0]
            took_s += (end - given) / self._rate(len(ends))
            given = end
            if is_it:
                return took_s
            heapq.heappop(ends)

    def _fill(self) -> None:
        while self.waiting and self.running < SLOTS:
            job = self.waiting.popleft()
            self._numbers += 1
            heapq.heappush(self._running, (self._given + job.tokens, self._numbers, job))
            job.on_start()

    def _advance(self, now_s: float) -> None:
        if self._running:
            self._given += (now_s - self._at_s) * self._rate(self.running)
        self._at_s = now_s

    def _rate(self, running: int) -> float:
        return self.speed / (1 + running / KNEE)
