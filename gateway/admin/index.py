"""The admin API's view of the index of similar questions: how far behind each worker of this host is, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from ..telemetry import metrics_table as table
from ..telemetry.metrics_merge import Snapshot
from .access import needs
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


class Following(BaseModel):
    worker: str
    lag_s: float = Field(description="Between what a process stores and this worker's index knowing it.")
    items_behind: int


class Anew(BaseModel):
    """Since the workers started."""

    left: int = Field(description="Entries still to be looked at, by the worker that embeds anew.")
    done: int
    unfit: int = Field(description="Questions that the new embedder cannot read.")
    settled: int = Field(description="Old vectors that were let go.")


class IndexTold(BaseModel):
    workers: list[Following] = Field(description="Empty where there is no embedder.")
    rebuilt: dict[str, int] = Field(description="Sixteenths of an index made from the store, by why.")
    snapshots: dict[str, int] = Field(description="By what became of them.")
    embedding_anew: Anew = Field(description="By an embedder that follows another.")


def index_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/admin/cache", tags=["cache"])

    @router.get("/index", responses=errors(), dependencies=[Depends(needs(context, "read"))])
    async def index() -> IndexTold:
        """How the workers of this host keep up with what all store, and how far another embedder is."""
        return index_told(await context.metrics())

    return router


def index_told(numbers: Snapshot) -> IndexTold:
    lag = _by_label(numbers, table.FOLLOW_LAG)
    behind = _by_label(numbers, table.FOLLOW_BEHIND)
    anew = _by_label(numbers, table.REEMBEDDED)
    return IndexTold(
        workers=[
            Following(worker=worker, lag_s=seconds, items_behind=int(behind.get(worker, 0)))
            for worker, seconds in sorted(lag.items())
        ],
        rebuilt=_counts(_by_label(numbers, table.SHARDS_REBUILT)),
        snapshots=_counts(_by_label(numbers, table.SNAPSHOTS)),
        embedding_anew=Anew(
            left=int(sum(_by_label(numbers, table.REEMBED_LEFT).values())),
            done=int(anew.get("done", 0)),
            unfit=int(anew.get("unfit", 0)),
            settled=int(anew.get("settled", 0)),
        ),
    )


def _by_label(numbers: Snapshot, fact: table.MetricFact) -> dict[str, float]:
    """The values of a metric by its one label ("" without any)."""
    name = fact.name.removesuffix("_total")
    return {
        sample.labels[0][1] if sample.labels else "": sample.value
        for family in numbers.families
        if family.name == name
        for sample in family.samples
    }


def _counts(values: dict[str, float]) -> dict[str, int]:
    return {name: int(value) for name, value in sorted(values.items())}
