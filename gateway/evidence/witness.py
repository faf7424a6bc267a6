"""Is told what the cache decided about each request, and returns at once: for audits of hits, explanations, reports."""

from __future__ import annotations

from cache import Hit, Miss

from ..call import Call
from ..telemetry.timeline import Timeline
from .decisions import Decisions
from .judging import ServedAudits
from .policy import label_of
from .tallies import Tallies


class Witness:
    def __init__(self, audits: ServedAudits, decisions: Decisions, tallies: Tallies) -> None:
        self._audits = audits
        self._decisions = decisions
        self._tallies = tallies

    def decided(self, call: Call, found: Hit | Miss, timeline: Timeline) -> None:
        if call.question is None:
            return
        self._decisions.note(call, call.question, found, timeline)
        self._tallies.note(call.question.partition.namespace, found, timeline)
        if isinstance(found, Hit):
            self._audits.consider(call, call.question, found)

    def passed(self, call: Call, timeline: Timeline) -> None:
        """The cache was not read."""
        if timeline.tenant is not None:
            label = label_of(timeline.tenant, call.controls.namespace, call.wish.model)
            self._tallies.note_bypass(label, call.bypass or "no-cache")
