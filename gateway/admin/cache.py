"""The admin API's cache: how it does, why a request is answered as it is, and the modes of namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ..errors import InvalidRequest, NotFound, Unavailable
from ..evidence.desk import CacheTold, ExplainPast, ExplainRequest, Report, WhyNoHits, Wish
from ..evidence.modes import write_mode
from ..evidence.tallies import DAYS_KEPT
from ..host.control import CacheModeChanged
from .access import Actor, needs
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

# What of an answer stands in the audit log.
_COUNTS = frozenset({"dry_run", "found", "removed", "namespaces", "lines", "outcomes"})

TenantName = Annotated[str, Path(pattern=r"^[A-Za-z0-9._*-]{1,64}$", description="The tenant.")]
Namespace = Annotated[
    str, Path(pattern=r"^[a-z0-9._-]{1,64}$", description="As in `x-cache-namespace`; else `default`.")
]


class ExplainWish(BaseModel):
    """Either a chat request and whose it would be, or the id of a past one."""

    model_config = ConfigDict(extra="forbid")

    request: dict[str, Any] | None = Field(
        None, description="The body of a chat request; it is not sent anywhere."
    )
    tenant: str | None = Field(None, min_length=1, max_length=64)
    service: str = Field("default", min_length=1, max_length=64)
    headers: dict[str, str] = Field({}, description="Such as `x-cache-namespace` and `cache-control`.")
    request_id: str | None = Field(
        None, max_length=64, description="The `x-echogate-request-id` of a past request."
    )

    @model_validator(mode="after")
    def _one_of_both(self) -> ExplainWish:
        if (self.request_id is None) == (self.request is None):
            raise ValueError("give either request (with its tenant) or request_id")
        if self.request is not None and self.tenant is None:
            raise ValueError("request needs the tenant whose it would be")
        return self

    def wish(self) -> Wish:
        if self.request_id is not None:
            return ExplainPast(self.request_id)
        return ExplainRequest(self.request or {}, self.tenant or "", self.service, self.headers)


class ModeRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    mode: Literal["off", "exact", "shadow", "semantic"] | None = Field(
        description="null: as configured. In `shadow` similar answers are judged and not served."
    )


class ModeSet(BaseModel):
    tenant: str
    namespace: str
    mode: Literal["off", "exact", "shadow", "semantic"] | None
    change_id: str | None = Field(description="Of the control record; null: the store did not take it.")
    not_acknowledged_by: list[int] = Field(description="Numbers of this host's workers; empty: all have it.")


def cache_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/admin/cache", tags=["cache"])
    reader, operator = Depends(needs(context, "read")), Depends(needs(context, "operate"))

    @router.get("/report", responses=errors(), dependencies=[reader])
    async def report(
        tenant: Annotated[str | None, Query(max_length=64)] = None,
        days: Annotated[int, Query(ge=1, le=DAYS_KEPT, description="Of requests, hits and savings.")] = 7,
    ) -> dict[str, Any]:
        """How each namespace stands: its state, and F as judged by whom, with its interval; what its hits saved, the
        entries served most (ids, no texts), and the reasons why others were not."""
        return answer_of(await context.ask_cache(Report(tenant, days)))

    @router.post("/explain", responses=errors(404), dependencies=[reader])
    async def explain(asked: ExplainWish) -> dict[str, Any]:
        """Why a request is answered as it is. No model is asked, and no text is told."""
        return answer_of(await context.ask_cache(asked.wish()))

    @router.get("/why-no-hits", responses=errors(), dependencies=[reader])
    async def why_no_hits(
        tenant: Annotated[str, Query(min_length=1, max_length=64)],
        key_id: Annotated[str | None, Query(max_length=64)] = None,
    ) -> dict[str, Any]:
        """What keeps requests from hitting: reasons, partitions seen once, parts that vary. Of a sample of requests."""
        return answer_of(await context.ask_cache(WhyNoHits(tenant, key_id)))

    @router.put("/modes/{tenant}/{namespace}", responses=errors())
    async def set_mode(
        tenant: TenantName,
        namespace: Namespace,
        asked: ModeRequest,
        actor: Actor = operator,
    ) -> ModeSet:
        """Switch a namespace of a tenant, on every worker at once; it stays so over restarts."""
        target = f"{tenant}/{namespace}"
        try:
            await write_mode(context.store, tenant, namespace, asked.mode)
        except OSError as error:
            await context.auditor.record(actor.did("cache.mode", target, "unknown"))
            raise Unavailable(
                "The durable store (store.durable) does not answer; the mode may have been changed nonetheless.",
                code="store_unavailable",
            ) from error
        await context.auditor.record(actor.did("cache.mode", target, after={"mode": asked.mode}))
        change_id, late = await context.publish(CacheModeChanged(tenant, namespace, asked.mode))
        return ModeSet(
            tenant=tenant,
            namespace=namespace,
            mode=asked.mode,
            change_id=change_id,
            not_acknowledged_by=late,
        )

    return router


async def acted(
    context: AdminContext, wish: Wish, actor: Actor, action: str, target: str, facts: dict[str, Any]
) -> dict[str, Any]:
    """Has a worker do it, and records what came of it: of what it did not answer, that it may be done nonetheless.
    Raises ApiError where there is no answer."""
    told = await context.ask_cache(wish)
    if told is None or told.told is None:
        outcome = "unknown" if told is None or told.is_for_now else "refused"
        await context.auditor.record(actor.did(action, target, outcome, after=facts))
    answer = answer_of(told)
    counts = {
        name: len(each) if isinstance(each, list) else each
        for name, each in answer.items()
        if name in _COUNTS
    }
    await context.auditor.record(actor.did(action, target, after=facts | counts))
    return answer


def answer_of(told: CacheTold | None) -> dict[str, Any]:
    """Raises ApiError where there is none."""
    if told is None:
        raise Unavailable("No worker of this host answered in time.", code="workers_unavailable")
    if told.told is None:
        message = told.problem or "There is no answer."
        if told.is_for_now:
            raise Unavailable(message, code="cache_unavailable")
        raise NotFound(message) if told.is_unknown else InvalidRequest(message)
    return told.told
