"""Chooses a member for each request and keeps the books of all of them, without any I/O and on any clock.

How each part is judged is in `choose/` and `survive/`; sending, and what to do when it fails, is sender.py's.
"""

from __future__ import annotations

import math
import random
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence

from .books import Books
from .choose import POLICIES, RECOMPUTE_S, Field, meets, qps_ratios, ranked
from .errors import NoBackend
from .facts import Recovery, VersionCounts
from .model import NO_AFFINITY, NO_NEEDS, Affinity, Candidate, Member, Needs, Pool, Signals, Version
from .survive import health_factor, usable
from .trial import Trial

_RECOVERIES_KEPT = 1000


class Router:
    """Whoever sends a request asks it to `choose`, tells it to `begin`, and ends the trial it got."""

    def __init__(
        self,
        pools: Mapping[str, Pool],
        *,
        clock: Callable[[], float],
        rng: random.Random,
        live_workers: Callable[[], int],
    ) -> None:
        self.clock = clock
        self.live_workers = live_workers
        self.versions: dict[Version, VersionCounts] = {}
        self.recoveries: deque[Recovery] = deque(maxlen=_RECOVERIES_KEPT)
        self._rng = rng
        self._pools: Mapping[str, Pool] = {}
        self._books: dict[str, Books] = {}
        self._leaving: list[Books] = []
        self._turns: Counter[str] = Counter()
        self._measured_s: dict[str, float] = {}
        self.update(pools)
        # Not the same order in every worker, or all of them would visit the same member at the same time.
        self._first_turn = rng.randrange(1 << 16)

    def __getitem__(self, member: str) -> Books:
        return self._books[member]

    def update(self, pools: Mapping[str, Pool]) -> None:
        """Follow a new configuration. A member that stays the same server keeps its books; one that is new beside
        others is given time to warm up; one that is gone finishes what it has."""
        now_s, before = self.clock(), self._books
        self._books = {}
        for pool in pools.values():
            for member in pool.members:
                books = before.get(member.name)
                if books is None or not _is_same_server(books.member, member):
                    books = Books(member)
                    if before:
                        books.warmup.begin(now_s)
                books.member = member
                cause = pool.drained.get(member.name)
                books.restore(now_s=now_s) if cause is None else self._drain(books, cause, now_s)
                self._books[member.name] = books
        kept = set(map(id, self._books.values()))
        gone = [books for books in before.values() if id(books) not in kept]
        self._leaving = [books for books in (*self._leaving, *gone) if books.in_flight.count]
        for books in gone:
            self._drain(books, "removed", now_s)
        self._pools = pools
        self._measured_s.clear()

    def update_signals(self, signals: Iterable[Signals]) -> None:
        """What servers said of themselves, from whoever asked them; older than what is known is ignored."""
        now_s = self.clock()
        for told in signals:
            books = self._books.get(told.member)
            if books is not None and (books.signals is None or told.at_s > books.signals.at_s):
                books.update_signals(told, now_s=now_s)

    def in_flight(self) -> dict[str, int]:
        """Open requests by member, those at members that were taken out included."""
        counts = {name: books.in_flight.count for name, books in self._books.items()}
        for books in self._leaving:
            if books.in_flight.count:
                counts[books.member.name] = counts.get(books.member.name, 0) + books.in_flight.count
        return counts

    @property
    def pools(self) -> Mapping[str, Pool]:
        return self._pools

    def eligible(self, members: Sequence[Member], needs: Needs = NO_NEEDS) -> list[Books]:
        """Those that are in the pool, not drained, and able to do it."""
        known = self._books
        return [
            books
            for member in members
            if (books := known.get(member.name)) is not None
            and books.drained_for is None
            and (needs is NO_NEEDS or meets(member.capabilities, needs))
        ]

    def is_usable(self, members: Sequence[Member], needs: Needs = NO_NEEDS) -> bool:
        """Whether one of these may be asked now."""
        now_s = self.clock()
        return any(books.standing(now_s) == "in" for books in self.eligible(members, needs))

    def usable(self, eligible: Sequence[Books]) -> list[Books]:
        """Those of them that may be asked now; empty only if there are none."""
        now_s = self.clock()
        chosen = usable(
            [books.member.tier for books in eligible], [books.standing(now_s) for books in eligible]
        )
        return [eligible[at] for at in chosen]

    def choose(
        self,
        model: str,
        members: Sequence[Member],
        *,
        needs: Needs = NO_NEEDS,
        affinity: Affinity = NO_AFFINITY,
        rng: random.Random | None = None,
    ) -> tuple[Member, tuple[Candidate, ...]]:
        """One of these members, and whom it was compared with. Raises `NoBackend`."""
        eligible = self.eligible(members, needs)
        if not eligible:
            raise NoBackend(f"no member of {model!r} is in service and able to serve this request")
        self._measure(model)
        asked = self.usable(eligible)
        names = [books.member.name for books in asked]
        if affinity.session is not None:
            return asked[ranked(affinity.session, names)[0]].member, ()
        now_s, workers = self.clock(), self.live_workers()
        field = Field(
            names=names,
            weights=[books.member.weight for books in asked],
            measured=[books.weight for books in asked],
            load=lambda at: asked[at].load(workers=workers, now_s=now_s),
            rng=rng or self._rng,
            turn=self._first_turn + self._turns[model],
            prefix=affinity.prefix,
        )
        self._turns[model] += rng is None
        pick = POLICIES[self._pools[model].policy](field)
        return asked[pick.at].member, tuple(Candidate(names[at], score) for at, score in pick.scores)

    def begin(self, member: Member, *, version: Version, is_stream: bool, patience_s: float) -> Trial:
        """Count a request that is about to be sent."""
        counts = self.versions.get(version)
        if counts is None:
            counts = self.versions[version] = VersionCounts()
        return Trial(
            self._books[member.name],
            counts=counts,
            is_stream=is_stream,
            patience_s=patience_s,
            clock=self.clock,
            on_recovery=self.recoveries.append,
        )

    def _measure(self, model: str) -> None:
        """Weigh the members of a pool by what was observed of them, if that was not done a moment ago."""
        now_s = self.clock()
        if now_s - self._measured_s.get(model, -math.inf) < RECOMPUTE_S:
            return
        books = [self._books[member.name] for member in self._pools[model].members]
        paces = qps_ratios({each.member.name: each.finished for each in books}, now_s=now_s)
        best_s = min((s for each in books if (s := each.vitals.first_token_s) is not None), default=None)
        for each in books:
            each.pace = paces[each.member.name]
            each.health = health_factor(
                first_token_s=each.vitals.first_token_s, best_s=best_s, errors=each.vitals.errors(now_s)
            )
            each.weight = each.member.weight * each.pace * each.health * each.warmup.factor(now_s)
        self._measured_s[model] = now_s

    def _drain(self, books: Books, cause: str, now_s: float) -> None:
        if books.drained_for is None:
            books.drain(cause, now_s=now_s)
            if not books.in_flight.count:
                self.recoveries.append(Recovery(books.member.name, cause, 0.0))


def _is_same_server(one: Member, other: Member) -> bool:
    return (one.base_url, one.upstream_model) == (other.base_url, other.upstream_model)
