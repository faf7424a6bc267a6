"""What this worker knows of one member: its load, its pace, its failures, what it said of itself."""

from __future__ import annotations

from .choose import InFlight, expected_load, finished_window, with_kv_pressure
from .facts import MemberState
from .model import Member, Signals
from .survive import Breaker, Standing, Vitals, Warmup

_LONGEST_REST_S = 60.0


class Books:
    """Kept for as long as the member is the same server. Moments come from one clock, given by the caller."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.in_flight = InFlight()
        self.breaker = Breaker()
        self.vitals = Vitals()
        self.warmup = Warmup()
        self.finished = finished_window()
        self.signals: Signals | None = None
        self.drained_for: str | None = None  # the cause, while it gets no new requests
        self.drained_s = 0.0
        self.pace = 1.0
        self.health = 1.0
        self.weight = member.weight  # all that was measured in it
        self._in_flight_then = 0
        self._rests_until_s = 0.0

    def update_signals(self, signals: Signals, *, now_s: float) -> None:
        was_well = self.signals is None or self.signals.health in ("ok", "unknown")
        self.signals = signals
        self._in_flight_then = self.in_flight.at(signals.at_s)
        if signals.health == "ok" and not was_well:
            self.warmup.begin(now_s)

    def load(self, *, workers: int, now_s: float) -> float:
        load = expected_load(
            said=self.signals,
            own=self.in_flight.count,
            own_then=self._in_flight_then,
            workers=workers,
            now_s=now_s,
        )
        said = self.fresh_signals(now_s)
        return with_kv_pressure(load, said.kv_usage) if said is not None else load

    def fresh_signals(self, now_s: float) -> Signals | None:
        return self.signals if self.signals is not None and now_s <= self.signals.fresh_until_s else None

    def standing(self, now_s: float) -> Standing:
        said = self.fresh_signals(now_s)
        if said is not None and said.health == "unreachable":
            return "unreached"
        if not self.breaker.allows(now_s):
            return "unreached" if self.breaker.is_unreached else "ejected"
        if said is not None and said.health == "failing":
            return "ejected"
        if now_s < self._rests_until_s or not self.warmup.may_take(self.in_flight.count):
            return "ejected"
        return "in"

    def rest(self, seconds: float, *, now_s: float) -> None:
        """The server asked to be left alone. A shorter word later on does not shorten a longer one."""
        self._rests_until_s = max(self._rests_until_s, now_s + min(seconds, _LONGEST_REST_S))

    def drain(self, cause: str, *, now_s: float) -> None:
        """No new requests from now on. A cause given earlier stays."""
        if self.drained_for is None:
            self.drained_for, self.drained_s = cause, now_s

    def restore(self, *, now_s: float) -> None:
        if self.drained_for is not None:
            self.drained_for = None
            self.warmup.begin(now_s)

    @property
    def state(self) -> MemberState:
        if self.drained_for is None:
            return "active"
        return "draining" if self.in_flight.count else "drained"
