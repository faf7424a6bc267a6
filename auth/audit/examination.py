"""Decides what was done to a log: goes along its records and its checkpoints, and names what is not as it was left."""

from __future__ import annotations

from collections.abc import Sequence

from .chain import START, Chain, Checkpoint, Head, Link
from .model import AuditProblem, AuditReport, Kind


class Examination:
    """Feed it the records that come after `since` in order with `look`, then ask for the `report`.

    `end` is what the store notes as the log's end, `first` the number of the first record that is there (0: there
    is none). With `from_checkpoint` it is enough to check what came after the last checkpoint.
    """

    def __init__(
        self,
        chain: Chain,
        *,
        checkpoints: Sequence[Checkpoint],
        end: Checkpoint,
        first: int,
        from_checkpoint: bool,
    ) -> None:
        self._chain = chain
        self._problems: list[AuditProblem] = []
        self._signed = {each.head.number: each.head for each in checkpoints if self._is_signed(each)}
        last_signed = max(self._signed, default=0)
        self._starts_after = first - 1 if first else min(last_signed, end.head.number)
        self._is_covered = self._starts_after <= last_signed
        self.since = max(last_signed if from_checkpoint else 0, self._starts_after)
        # What the next record must follow on; None: what that was is not known.
        self._before = START if self.since == 0 else self._signed.get(self.since)
        self._last = self.since
        self._checked = 0

    @property
    def last(self) -> int:
        return self._last

    def look(self, link: Link) -> None:
        self._checked += 1
        signed = self._signed.get(link.number)
        if link.number > self._last + 1:
            self._add("deleted", self._last + 1, link.number - 1)
            self._before = None
        if not self._chain.is_genuine(link):
            self._add("edited", link.number)
            self._before = None  # its code may be as wrong as the rest of it
        elif (self._before is not None and self._before.code != link.before) or (
            signed is not None and signed.code != link.code
        ):
            self._add("replaced", link.number)
            self._before = Head(link.number, link.code)
        else:
            self._before = Head(link.number, link.code)
        self._last = link.number

    def report(self, end: Checkpoint, known: Head) -> AuditReport:
        """`end` as it is noted after the last record was read; `known` is an end that this process has seen."""
        ends = [known, *self._signed.values()]
        if end.head != START and self._is_signed(end):
            ends.append(end.head)
        longest = max(ends, key=lambda head: head.number)
        if longest.number > self._last:
            self._add("deleted", self._last + 1, longest.number)
        elif end.head.number < self._last:
            self._add("wrong end", end.head.number, self._last)
        elif self._before is not None and longest.code != self._before.code:
            self._add("replaced", self._last)
        return AuditReport(
            since=self.since,
            last=self._last,
            checked=self._checked,
            starts_after=self._starts_after,
            is_covered=self._is_covered,
            problems=tuple(self._problems),
        )

    def _is_signed(self, checkpoint: Checkpoint) -> bool:
        if self._chain.is_signed(checkpoint):
            return True
        self._add("unsigned", checkpoint.head.number)
        return False

    def _add(self, kind: Kind, first: int, last: int | None = None) -> None:
        self._problems.append(AuditProblem(kind, first, first if last is None else last))
