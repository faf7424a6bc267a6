"""The admin API's look at limits: how those of a key, a service or a tenant stand now."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from auth import (
    UNLIMITED,
    KeyRef,
    LevelLimits,
    LimitsUnavailable,
    LiveLimit,
    ServiceRef,
    TenantRef,
)

from ..errors import NotFound, from_limits
from .access import needs
from .acts import refusals
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


class LiveLimitOut(BaseModel):
    """One limit as it stands."""

    level: Literal["key", "service", "tenant"]
    name: str
    kind: Literal["budget", "requests/s", "requests/min", "tokens/min", "concurrent"]
    capacity: float = Field(description="The most that may be used at once, or within the budget's period.")
    remaining: float = Field(description="Left now; below 0 where more was used than reserved.")
    reset_s: float | None = Field(description="Until all of it is back; null: when running requests end.")

    @classmethod
    def of(cls, limit: LiveLimit) -> LiveLimitOut:
        return cls(
            level=limit.level,
            name=limit.name,
            kind=limit.kind,
            capacity=limit.capacity,
            remaining=limit.remaining,
            reset_s=limit.reset_s,
        )


class LiveLimits(BaseModel):
    object: Literal["list"] = "list"
    data: list[LiveLimitOut]


def limits_router(context: AdminContext) -> APIRouter:
    router = APIRouter(
        prefix="/admin/limits", tags=["limits"], dependencies=[Depends(needs(context, "read"))]
    )

    async def look(tenant: str, *levels: LevelLimits) -> LiveLimits:
        limited = [level for level in levels if level.limits != UNLIMITED]
        try:
            found = await context.limiter.look(tenant, limited) if limited else ()
        except LimitsUnavailable as error:
            raise from_limits(error) from error
        return LiveLimits(data=[LiveLimitOut.of(limit) for limit in found])

    @router.get("/tenant/{name}", responses=errors(404))
    async def tenant_limits(name: str) -> LiveLimits:
        with refusals():
            record = await context.directory.get(TenantRef(name))
        if record is None:
            raise NotFound(f"There is no tenant {name[:64]!r}.")
        return await look(name, LevelLimits("tenant", name, record.limits))

    @router.get("/service/{tenant}/{name}", responses=errors(404))
    async def service_limits(tenant: str, name: str) -> LiveLimits:
        with refusals():
            record = await context.directory.get(ServiceRef(tenant, name))
        if record is None:
            raise NotFound(f"There is no service {name[:64]!r} of tenant {tenant[:64]!r}.")
        return await look(tenant, LevelLimits("service", name, record.limits))

    @router.get("/key/{key_id}", responses=errors(404))
    async def key_limits(key_id: str) -> LiveLimits:
        """Those of the key's service and tenant too, as all of them apply at once."""
        with refusals():
            lineage = await context.directory.find(key_id)
        if lineage is None:
            raise NotFound(f"There is no {KeyRef(key_id[:64])}.")
        return await look(
            lineage.tenant.name,
            LevelLimits("key", key_id, lineage.key.limits),
            LevelLimits("service", lineage.service.name, lineage.service.limits),
            LevelLimits("tenant", lineage.tenant.name, lineage.tenant.limits),
        )

    return router
