"""Requests of several gateway workers to simulated engines, through the real choice code on a simulated clock."""

from __future__ import annotations

import functools
import heapq
import itertools
import random
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from backends.model import Member, PolicyName, Pool, Signals, Version
from backends.router import Router

from .engines import Engine, Job

MODEL, VERSION = "m", Version("m", "1")
WORKERS = 4
POLL_S = 0.25
_FAILS_AFTER_S = 0.05


@dataclass(frozen=True, slots=True)
class Scenario:
    """`speeds` are tokens per second of a lone request, `load` the share of what healthy members can do at most."""

    speeds: Sequence[float]
    failing: frozenset[int]
    load: float
    requests: int
    tokens: Callable[[random.Random], float]
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Outcome:
    took_s: Sequence[float]
    errors: int

    @property
    def mean_ms(self) -> float:
        return statistics.fmean(self.took_s) * 1000

    def percentile_ms(self, share: float) -> float:
        return sorted(self.took_s)[int(len(self.took_s) * share)] * 1000


Oracle = Literal["oracle", "clairvoyant"]


class Simulation:
    """One scenario under one policy.

    The oracle knows the speeds, the failing member, and everybody's open requests at this very instant, and sends a
    request to where it would end soonest. The clairvoyant one knows in advance how long each request will be, too.
    """

    def __init__(self, scenario: Scenario, policy: PolicyName | Oracle) -> None:
        self._scenario = scenario
        self._policy = policy
        self._now_s = 0.0
        self._rng = random.Random(scenario.seed)
        self._engines = [Engine(speed, at in scenario.failing) for at, speed in enumerate(scenario.speeds)]
        self._members = tuple(Member(f"s{at}", f"http://s{at}", "m", "1") for at in range(len(self._engines)))
        self._engine_of = dict(zip(self._members, self._engines, strict=True))
        followed: PolicyName = "least-load" if policy == "oracle" or policy == "clairvoyant" else policy
        pool = Pool(self._members, policy=followed)
        self._workers = [
            Router(
                {MODEL: pool},
                clock=lambda: self._now_s,
                rng=random.Random(number),
                live_workers=lambda: WORKERS,
            )
            for number in range(WORKERS)
        ]
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._took_s: list[float] = []
        self._errors = 0

    def run(self) -> Outcome:
        scenario = self._scenario
        lengths = [scenario.tokens(self._rng) for _ in range(scenario.requests)]
        capacity = sum(engine.capacity for engine in self._engines if not engine.is_failing)
        per_s = scenario.load * capacity / statistics.fmean(lengths)
        at_s = 0.0
        for length in lengths:
            at_s += self._rng.expovariate(per_s)
            self._at(at_s, functools.partial(self._arrive, length, self._rng.randrange(WORKERS), at_s))
        self._poll()
        while len(self._took_s) + self._errors < scenario.requests:
            self._step()
        return Outcome(self._took_s, self._errors)

    def _arrive(self, tokens: float, worker: int, asked_s: float, tried: Member | None = None) -> None:
        router = self._workers[worker]
        able = [member for member in self._members if member is not tried]
        member = self._foretold(able, tokens) or router.choose(MODEL, able)[0]
        trial = router.begin(member, version=VERSION, is_stream=True, patience_s=60.0)

        def end() -> None:
            trial.end(is_complete=True)
            self._took_s.append(self._now_s - asked_s)

        def fail() -> None:
            trial.end("status")
            if tried is None:
                self._arrive(tokens, worker, asked_s, member)
            else:
                self._errors += 1

        if self._engine_of[member].is_failing:
            self._at(self._now_s + _FAILS_AFTER_S, fail)
        else:
            start = functools.partial(trial.note_answer, is_first_token=True)
            self._engine_of[member].accept(Job(tokens, start, end), self._now_s)

    def _foretold(self, members: Sequence[Member], tokens: float) -> Member | None:
        """What an oracle says; None under a policy."""
        of = self._engine_of
        healthy = [member for member in members if not of[member].is_failing]
        match self._policy:
            case "oracle":
                return min(healthy, key=lambda member: of[member].s_per_token())
            case "clairvoyant":
                return min(healthy, key=lambda member: of[member].would_take_s(tokens, self._now_s))
            case _:
                return None

    def _poll(self) -> None:
        """One poller for all workers. The failing member says that it is fine."""
        signals = [
            Signals(
                member.name,
                self._now_s,
                POLL_S,
                "ok",
                running=engine.running,
                waiting=len(engine.waiting),
            )
            for member, engine in self._engine_of.items()
        ]
        for worker in self._workers:
            worker.update_signals(signals)
        self._at(self._now_s + POLL_S, self._poll)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._events, (at_s, next(self._numbers), act))

    def _step(self) -> None:
        ends = [
            (end_s, at) for at, one in enumerate(self._engines) if (end_s := one.next_end_s()) is not None
        ]
        soonest = min(ends, default=None)
        if soonest is not None and soonest[0] <= self._events[0][0]:
            self._now_s = max(self._now_s, soonest[0])
            self._engines[soonest[1]].finish_next(self._now_s)
        else:
            self._now_s, _, act = heapq.heappop(self._events)
            act()
