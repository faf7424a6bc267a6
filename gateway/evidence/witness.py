"""Is told what the cache decided about each request, and returns at once: for audits of hits, and for explanations."""

from __future__ import annotations

from cache import Hit, Miss

from ..call import Call
from ..telemetry.timeline import Timeline
from .decisions import Decisions
from .judging import ServedAudits


class Witness:
    def __init__(self, audits: ServedAudits, decisions: Decisions) -> None:
        self._audits = audits
        self._decisions = decisions

    def decided(self, call: Call, found: Hit | Miss, timeline: Timeline) -> None:
        if call.question is None:
            return
        self._decisions.note(call, call.question, found, timeline)
        if isinstance(found, Hit):
            self._audits.consider(call, call.question, found)
