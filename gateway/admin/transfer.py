"""The admin API's export and import: records as plain values, secrets as hashes, from one deployment to another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field

from auth import exported, imported

from .access import Actor, needs
from .acts import Acts, Conflict, refusals
from .model import After, Asked, Listing
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


class Import(Asked):
    records: list[dict[str, Any]] = Field(
        max_length=1000, description="As an export gave them; tenants before services before keys."
    )


class Imported(BaseModel):
    object: Literal["import"] = "import"
    added: int
    present: int = Field(description="Records that were there already; they were left as they are.")


def transfer_router(context: AdminContext, acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/admin", tags=["transfer"])
    owner = Depends(needs(context, "transfer"))

    @router.get("/export", responses=errors())
    async def export_records(
        actor: Actor = owner,
        kind: Literal["tenant", "service", "key"] = "key",
        limit: Annotated[int, Query(ge=1, le=1000)] = 1000,
        after: After = None,
    ) -> Listing[dict[str, Any]]:
        """A key holds the SHA-256 of its secret: enough to go on using it elsewhere, not to find it out."""
        directory = context.directory
        with refusals():
            if kind == "tenant":
                tenants = await directory.tenants(limit=limit, after=after)
                data, following = [exported(each) for each in tenants.records], tenants.next
            elif kind == "service":
                services = await directory.services(limit=limit, after=after)
                data, following = [exported(each) for each in services.records], services.next
            else:
                keys = await directory.keys(limit=limit, after=after)
                data, following = [exported(each) for each in keys.records], keys.next
        await context.auditor.record(actor.did("export", f"{len(data)} records of kind {kind}"))
        return Listing(data=data, has_more=following is not None, next=following)

    @router.post("/import", responses=errors())
    async def import_records(asked: Import, actor: Actor = owner) -> Imported:
        """Adds what is not there yet. All are checked before the first is added."""
        with refusals():
            records = [imported(plain) for plain in asked.records]
        added = 0
        for record in records:
            try:
                await acts.add(actor, record)
                added += 1
            except Conflict:
                continue
        return Imported(added=added, present=len(records) - added)

    return router
