"""The admin API's tenants: make, list, look at, change, disable, enable, delete."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from fastapi import APIRouter, Depends, Response

from auth import Tenant, TenantRef, disabled, enabled

from ..errors import NotFound
from .access import Actor, needs
from .acts import Acts, refusals
from .idempotency import IdempotencyKey
from .model import After, Deleted, Listing, PageSize
from .model_records import ChangedTenant, TenantOut, TenantRequest, Update, policy_of
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


def tenants_router(context: AdminContext, acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/admin/tenants", tags=["tenants"])
    reader, operator, writer = (
        Depends(needs(context, permission)) for permission in ("read", "operate", "write")
    )

    @router.post("", status_code=201, responses=errors(409, 422))
    async def create_tenant(
        asked: TenantRequest,
        response: Response,
        actor: Actor = writer,
        idempotency_key: IdempotencyKey = None,
    ) -> TenantOut:
        async def make(_: str) -> TenantOut:
            with refusals():
                record = Tenant(
                    name=asked.name,
                    created_at_s=time.time(),
                    policy=policy_of(asked.policy),
                    limits=asked.limits.whole(),
                    metadata=asked.metadata,
                )
            return TenantOut.of(await acts.add(actor, record))

        return await context.once.reply(
            idempotency_key,
            asked_by=(actor.key_id, router.prefix),
            asked=asked,
            shape=TenantOut,
            make=make,
            response=response,
        )

    @router.get("", responses=errors(), dependencies=[reader])
    async def list_tenants(limit: PageSize = 100, after: After = None) -> Listing[TenantOut]:
        """By name."""
        with refusals():
            page = await context.directory.tenants(limit=limit, after=after)
        data = [TenantOut.of(record) for record in page.records]
        return Listing(data=data, has_more=page.next is not None, next=page.next)

    @router.get("/{name}", responses=errors(404), dependencies=[reader])
    async def get_tenant(name: str) -> TenantOut:
        with refusals():
            record = await context.directory.get(TenantRef(name))
        if record is None:
            raise NotFound(f"There is no tenant {name[:64]!r}.")
        return TenantOut.of(record)

    @router.patch("/{name}", responses=errors(404, unreplicated=ChangedTenant))
    async def update_tenant(
        name: str, asked: Update, response: Response, actor: Actor = writer
    ) -> ChangedTenant:
        record, change = await acts.change(actor, "update", TenantRef(name), asked.applied, response)
        return ChangedTenant(**dict(TenantOut.of(record)), change=change)

    @router.post("/{name}/disable", responses=errors(404, unreplicated=ChangedTenant))
    async def disable_tenant(name: str, response: Response, actor: Actor = operator) -> ChangedTenant:
        """None of its keys works any more, until it is enabled."""
        act = partial(disabled, at_s=time.time())
        record, change = await acts.change(actor, "disable", TenantRef(name), act, response)
        return ChangedTenant(**dict(TenantOut.of(record)), change=change)

    @router.post("/{name}/enable", responses=errors(404, unreplicated=ChangedTenant))
    async def enable_tenant(name: str, response: Response, actor: Actor = operator) -> ChangedTenant:
        record, change = await acts.change(actor, "enable", TenantRef(name), enabled, response)
        return ChangedTenant(**dict(TenantOut.of(record)), change=change)

    @router.delete("/{name}", responses=errors(404, 409, unreplicated=Deleted))
    async def delete_tenant(name: str, response: Response, actor: Actor = writer) -> Deleted:
        """For good. Its services must be deleted before."""
        change = await acts.delete(actor, TenantRef(name), response)
        return Deleted(object="tenant", id=name, change=change)

    return router
