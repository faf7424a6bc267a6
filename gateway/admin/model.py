"""What all parts of the admin API take and give alike: errors, pages of lists, and where a change is in force."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Generic, Literal, TypeVar

from fastapi import Query
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

T = TypeVar("T")

LATEST_S = 2.0**37  # in the year 6325; datetimes end in 9999

When = Annotated[AwareDatetime, Field(strict=False)]  # in JSON a moment is a text
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
PageSize = Annotated[int, Query(ge=1, le=1000, description="At most so many.")]
After = Annotated[str | None, Query(max_length=256, description="`next` of the page before.")]


class Asked(BaseModel):
    """A request body. What it does not know is refused, so that no limit is lost to a misspelling, and nothing is
    taken for what it is not: `"5"` is no number and 0 no `false`."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorBody(BaseModel):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class Error(BaseModel):
    error: ErrorBody


class Listing(BaseModel, Generic[T]):
    object: Literal["list"] = "list"
    data: list[T]
    has_more: bool
    next: str | None = Field(description="To be given as `after` for what follows; null at the end.")


class Change(BaseModel):
    """Where a change is in force.

    Workers of this host that did not say so within a second are listed; they follow when they can, like those of
    other hosts, within about a second. `replicated` is false (and the status 202) where the store has replicas and
    none confirmed the change in time: it is in force, but would be lost if the store failed now. Then this process
    makes it again.
    """

    replicated: bool
    id: str | None = Field(description="Of the control record; null: the store did not take it.")
    not_acknowledged_by: list[int] = Field(description="Numbers of this host's workers; empty: all have it.")


class Deleted(BaseModel):
    object: str
    id: str
    deleted: Literal[True] = True
    change: Change


def moment(at_s: float) -> datetime:
    return datetime.fromtimestamp(min(max(at_s, 0.0), LATEST_S), UTC)


def moment_or_none(at_s: float | None) -> datetime | None:
    return None if at_s is None else moment(at_s)
