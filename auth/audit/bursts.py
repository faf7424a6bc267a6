"""Decides which failed logins are worth an audit record: many within a minute, from one address or at one key."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Literal

from .model import AuditRecord

_WINDOW_S = 60.0
_CAPACITY = 1_000
_OTHERS = "others"


@dataclass(frozen=True, slots=True)
class Burst:
    """`failures` within a minute: of one address (`key_id` is what it tried, None: several keys), or at one key
    from several addresses (`source_ip` is None)."""

    source_ip: str | None
    key_id: str | None
    failures: int
    first_at_s: float
    last_at_s: float

    def as_record(self) -> AuditRecord:
        return AuditRecord(
            at_s=self.last_at_s,
            actor=self.source_ip or "several addresses",
            role="none",
            action="auth.failures",
            target=f"key {self.key_id}" if self.key_id else "several keys",
            outcome="refused",
            source_ip=self.source_ip,
            after={"failures": self.failures, "first_at_s": self.first_at_s, "last_at_s": self.last_at_s},
        )


@dataclass(slots=True)
class _Count:
    """Failures of an address or at a key. `partner` is the other of the two; None: there were several."""

    partner: str | None
    first_at_s: float
    last_at_s: float
    failures: int = 0


class FailureBursts:
    """Counts for a minute from a first failure on; then `due` has it, if there were at least `least`.

    Moments are wall-clock seconds. At most a thousand addresses and keys are told apart at a time; what comes
    beyond them is counted as one address, "others".
    """

    def __init__(self, *, least: int = 5) -> None:
        self._least = least
        self._counts: OrderedDict[tuple[Literal["address", "key"], str], _Count] = OrderedDict()

    def __len__(self) -> int:
        return len(self._counts)

    def note(self, source_ip: str, key_id: str | None, *, at_s: float, times: int = 1) -> None:
        """A login failed so many times. `key_id` is the public id that was presented, if it was a key at all."""
        self._count("address", source_ip, key_id, at_s, times)
        if key_id is not None:
            self._count("key", key_id, source_ip, at_s, times)

    def due(self, now_s: float) -> list[Burst]:
        """The bursts whose minute is over; each is given once."""
        bursts = []
        while self._counts:
            (kind, name), count = next(iter(self._counts.items()))
            if now_s - count.first_at_s < _WINDOW_S:
                break
            self._counts.popitem(last=False)
            if count.failures < self._least:
                continue
            if kind == "address":
                bursts.append(Burst(name, count.partner, count.failures, count.first_at_s, count.last_at_s))
            elif count.partner is None:  # else its address has been given already
                bursts.append(Burst(None, name, count.failures, count.first_at_s, count.last_at_s))
        return bursts

    def _count(
        self, kind: Literal["address", "key"], name: str, partner: str | None, at_s: float, times: int
    ) -> None:
        if (kind, name) not in self._counts and len(self._counts) >= _CAPACITY:
            if kind == "key":
                return
            name, partner = _OTHERS, None
        count = self._counts.get((kind, name))
        if count is None:
            count = self._counts[kind, name] = _Count(partner, at_s, at_s)
        elif count.partner != partner:
            count.partner = None
        count.failures += times
        count.last_at_s = at_s
