"""What this worker knows of one member: its load, its pace, its failures, what it said of itself."""

from __future__ import annotations

import math

from .choose import InFlight, expected_load, finished_window, with_kv_pressure
from .facts import MemberState
from .model import Health, Member, Signals
from .survive import Breaker, Standing, Vitals, Warmup

_LONGEST_REST_S = 60.0
_ILL: dict[Health, Standing] = {"failing": "ejected", "unreachable": "unreached"}


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
        self._rests_until_s = -math.inf
        self._fresh_until_s = -math.inf
        self._ill: Standing | None = None  # what its own word on its health makes of its standing

    def update_signals(self, signals: Signals, *, now_s: float) -> None:
        was_well = self.signals is None or self.signals.health in ("ok", "unknown")
        self.signals = signals
        self._fresh_until_s = signals.fresh_until_s
        self._in_flight_then = self.in_flight.at(signals.at_s)
        self._ill = _ILL.get(signals.health)
        if signals.health == "ok" and not was_well:
            self.warmup.begin(now_s)

    def load(self, *, workers: int, now_s: float) -> float:
        """Requests at the member now, as far as can be told, and what KV memory running short adds to them."""
        said = self.fresh_signals(now_s)
        load = expected_load(
            said=said, own=self.in_flight.count, own_then=self._in_flight_then, workers=workers
        )
        return load if said is None else with_kv_pressure(load, said.kv_usage)

    def fresh_signals(self, now_s: float) -> Signals | None:
        return self.signals if now_s <= self._fresh_until_s else None

    def standing(self, now_s: float) -> Standing:
        if self.breaker.opened_s is not None and not self.breaker.allows(now_s):
            return "unreached" if self.breaker.is_unreached else "ejected"
        if self._ill is not None and now_s <= self._fresh_until_s:
            return self._ill
        if now_s < self._rests_until_s:
            return "ejected"
        return "in" if self.warmup.may_take(self.in_flight.count) else "warming"

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
