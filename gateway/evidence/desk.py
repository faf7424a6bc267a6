"""What the supervisor asks of a worker's cache: an explanation, or a report. Answers are JSON, made by the worker."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from .entry_wishes import EntryWish


class ExplainRequest(msgspec.Struct, frozen=True, tag=True):
    """What would be done with this request of this tenant, of whichever endpoint its question is for?"""

    request: dict[str, Any]
    tenant: str
    service: str = "default"
    headers: dict[str, str] = {}


class ExplainPast(msgspec.Struct, frozen=True, tag=True):
    """What was decided about a request of a while ago?"""

    request_id: str


class WhyNoHits(msgspec.Struct, frozen=True, tag=True):
    """What kept the requests of a tenant, or of one of its keys, from hitting?"""

    tenant: str
    key_id: str | None = None


class Report(msgspec.Struct, frozen=True, tag=True):
    """How does the cache do, and how did it over so many days?"""

    tenant: str | None = None
    days: int = 7


class ShadowCurves(msgspec.Struct, frozen=True, tag=True):
    """What would other thresholds have served, going by the audits of a tenant's namespaces?"""

    tenant: str
    namespace: str | None = None
    model: str | None = None


class AskJudge(msgspec.Struct, frozen=True, tag=True):
    """What does this model say of these answers?"""

    judge: str
    question: str
    fresh_answer: str
    stored_question: str
    stored_answer: str


Wish = ExplainRequest | ExplainPast | WhyNoHits | Report | ShadowCurves | AskJudge | EntryWish


class AskCache(msgspec.Struct, frozen=True, tag=True):
    """To a worker."""

    ask_id: int
    wish: Wish


class CacheTold(msgspec.Struct, frozen=True, tag=True):
    """From a worker. Where there is no answer, `problem` says why; `is_unknown`: what was asked about is not there;
    `is_for_now`: it could be answered at another time."""

    ask_id: int
    told: dict[str, Any] | None = None
    problem: str | None = None
    is_unknown: bool = False
    is_for_now: bool = False


class CacheDesk(Protocol):
    """The cache of a worker, as the shell around it speaks to it."""

    async def answer(self, ask: AskCache) -> CacheTold:
        """Never raises."""
        ...


class NoCache:
    """The desk of a worker that has no cache (yet)."""

    async def answer(self, ask: AskCache) -> CacheTold:
        return CacheTold(ask.ask_id, problem="this worker has no cache yet")
