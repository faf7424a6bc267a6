"""The admin API's audit log: what it says, and whether it is whole."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from auth import AuditEntry, AuditReport, AuditUnavailable

from ..errors import Unavailable
from .access import needs
from .model import PageSize, moment
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


class AuditEntryOut(BaseModel):
    number: int = Field(description="From 1 on, without gaps.")
    at: datetime
    actor: str
    role: str
    action: str
    target: str
    outcome: str = Field(
        description="`done`; `refused`; `unknown`: the store did not say whether it was done."
    )
    source_ip: str | None
    before: dict[str, Any] | None = Field(description="What was changed, as it was.")
    after: dict[str, Any] | None = Field(description="And as it is since. Never a secret.")

    @classmethod
    def of(cls, entry: AuditEntry) -> AuditEntryOut:
        record = entry.record
        return cls(
            number=entry.number,
            at=moment(record.at_s),
            actor=record.actor,
            role=record.role,
            action=record.action,
            target=record.target,
            outcome=record.outcome,
            source_ip=record.source_ip,
            before=None if record.before is None else dict(record.before),
            after=None if record.after is None else dict(record.after),
        )


class AuditListing(BaseModel):
    object: Literal["list"] = "list"
    data: list[AuditEntryOut]
    has_more: bool
    next: int | None = Field(description="To be given as `after` for what follows; null at the end.")


class AuditProblemOut(BaseModel):
    kind: Literal["deleted", "edited", "replaced", "unsigned", "wrong end"]
    first: int = Field(description="Number of the first record that it concerns.")
    last: int
    message: str


class AuditReportOut(BaseModel):
    object: Literal["audit.report"] = "audit.report"
    is_intact: bool
    checked: int = Field(description="Records that were checked: those after `since`.")
    since: int = Field(description="The signed checkpoint that the check began with; 0: the beginning.")
    last: int = Field(description="Number of the last record.")
    starts_after: int = Field(description="The log starts after this record; those before were trimmed.")
    is_covered: bool = Field(description="A signed checkpoint vouches for what was trimmed.")
    problems: list[AuditProblemOut]

    @classmethod
    def of(cls, report: AuditReport) -> AuditReportOut:
        return cls(
            is_intact=report.is_intact,
            checked=report.checked,
            since=report.since,
            last=report.last,
            starts_after=report.starts_after,
            is_covered=report.is_covered,
            problems=[
                AuditProblemOut(kind=each.kind, first=each.first, last=each.last, message=str(each))
                for each in report.problems
            ],
        )


def audit_router(context: AdminContext) -> APIRouter:
    router = APIRouter(
        prefix="/admin/audit", tags=["audit"], dependencies=[Depends(needs(context, "read-audit"))]
    )

    @router.get("", responses=errors())
    async def read_audit(
        after: Annotated[int, Query(ge=0, le=2**53, description="`next` of the page before.")] = 0,
        limit: PageSize = 100,
    ) -> AuditListing:
        """Oldest first. The records are shown as they are; whether they are genuine says `verify`."""
        try:
            entries = await context.auditor.read(after=after, limit=limit + 1)
        except AuditUnavailable as error:
            raise _unavailable(error) from error
        has_more = len(entries) > limit
        page = entries[:limit]
        return AuditListing(
            data=[AuditEntryOut.of(entry) for entry in page],
            has_more=has_more,
            next=page[-1].number if has_more else None,
        )

    @router.get("/verify", responses=errors())
    async def verify_audit(
        full: Annotated[bool, Query(description="From the first record, not the last checkpoint.")] = False,
    ) -> AuditReportOut:
        """Whether records were deleted, edited or exchanged, by whoever can write to the store."""
        try:
            return AuditReportOut.of(await context.auditor.verify(from_checkpoint=not full))
        except AuditUnavailable as error:
            raise _unavailable(error) from error

    return router


def _unavailable(error: AuditUnavailable) -> Unavailable:
    return Unavailable(str(error), code="audit_unavailable")
