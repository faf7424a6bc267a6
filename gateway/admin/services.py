"""The admin API's services: make, list, look at, change, disable, enable, delete."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Response

from auth import Service, ServiceRef, disabled, enabled

from ..errors import NotFound
from .access import Actor, needs
from .acts import Acts, refusals
from .idempotency import IdempotencyKey
from .model import After, Deleted, Listing, PageSize
from .model_records import ChangedService, ServiceOut, ServiceRequest, Update, policy_of
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


def services_router(context: AdminContext, acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/admin/services", tags=["services"])
    reader, operator, writer = (
        Depends(needs(context, permission)) for permission in ("read", "operate", "write")
    )

    @router.post("", status_code=201, responses=errors(409, 422))
    async def create_service(
        asked: ServiceRequest,
        response: Response,
        actor: Actor = writer,
        idempotency_key: IdempotencyKey = None,
    ) -> ServiceOut:
        async def make(_: str) -> ServiceOut:
            with refusals():
                record = Service(
                    tenant=asked.tenant,
                    name=asked.name,
                    created_at_s=time.time(),
                    policy=policy_of(asked.policy),
                    limits=asked.limits.whole(),
                    metadata=asked.metadata,
                )
            return ServiceOut.of(await acts.add(actor, record))

        return await context.once.reply(
            idempotency_key,
            asked_by=(actor.key_id, router.prefix),
            asked=asked,
            shape=ServiceOut,
            make=make,
            response=response,
        )

    @router.get("", responses=errors(), dependencies=[reader])
    async def list_services(
        tenant: Annotated[str | None, Query(description="Of this one only.")] = None,
        limit: PageSize = 100,
        after: After = None,
    ) -> Listing[ServiceOut]:
        """By tenant and name."""
        with refusals():
            page = await context.directory.services(tenant=tenant, limit=limit, after=after)
        data = [ServiceOut.of(record) for record in page.records]
        return Listing(data=data, has_more=page.next is not None, next=page.next)

    @router.get("/{tenant}/{name}", responses=errors(404), dependencies=[reader])
    async def get_service(tenant: str, name: str) -> ServiceOut:
        with refusals():
            record = await context.directory.get(ServiceRef(tenant, name))
        if record is None:
            raise NotFound(f"There is no service {name[:64]!r} of tenant {tenant[:64]!r}.")
        return ServiceOut.of(record)

    @router.patch("/{tenant}/{name}", responses=errors(404, unreplicated=ChangedService))
    async def update_service(
        tenant: str, name: str, asked: Update, response: Response, actor: Actor = writer
    ) -> ChangedService:
        record, change = await acts.change(actor, "update", ServiceRef(tenant, name), asked.applied, response)
        return ChangedService(**dict(ServiceOut.of(record)), change=change)

    @router.post("/{tenant}/{name}/disable", responses=errors(404, unreplicated=ChangedService))
    async def disable_service(
        tenant: str, name: str, response: Response, actor: Actor = operator
    ) -> ChangedService:
        """None of its keys works any more, until it is enabled."""
        act = partial(disabled, at_s=time.time())
        record, change = await acts.change(actor, "disable", ServiceRef(tenant, name), act, response)
        return ChangedService(**dict(ServiceOut.of(record)), change=change)

    @router.post("/{tenant}/{name}/enable", responses=errors(404, unreplicated=ChangedService))
    async def enable_service(
        tenant: str, name: str, response: Response, actor: Actor = operator
    ) -> ChangedService:
        record, change = await acts.change(actor, "enable", ServiceRef(tenant, name), enabled, response)
        return ChangedService(**dict(ServiceOut.of(record)), change=change)

    @router.delete("/{tenant}/{name}", responses=errors(404, 409, unreplicated=Deleted))
    async def delete_service(tenant: str, name: str, response: Response, actor: Actor = writer) -> Deleted:
        """For good. Its keys must be deleted before."""
        change = await acts.delete(actor, ServiceRef(tenant, name), response)
        return Deleted(object="service", id=f"{tenant}/{name}", change=change)

    return router
