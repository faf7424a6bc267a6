"""The admin API's backends: how they stand, where a request would go, and what admins change of them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from backends import (
    Affinity,
    MemberView,
    Needs,
    Overlay,
    StateConflict,
    StateError,
    differences,
)

from ..errors import InvalidRequest, NotFound, Unavailable, unknown_model
from ..pools.desk import RouteQuestion
from ..pools.host import HostPools
from ..routing import affinity_key
from ..settings.errors import SettingsError
from .access import Actor, needs
from .acts import Conflict
from .model_backends import (
    BackendList,
    BackendOut,
    DiffOut,
    DrainRequest,
    FindingOut,
    Findings,
    MemberName,
    MemberRequest,
    PoolChange,
    PoolDiff,
    ResetRequest,
    RouteOut,
    RouteRequest,
    WeightsRequest,
    differing,
)
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

Name = Annotated[MemberName, Path(description="The backend's name, as in `x-echogate-backend`.")]


class PoolActs:
    """Makes changes: in the durable store, in force on this host, and in the audit log."""

    def __init__(self, context: AdminContext) -> None:
        self._pools = context.pools
        self._auditor = context.auditor

    async def drain(self, actor: Actor, name: str, cause: str) -> PoolChange:
        return await self.on_member(
            actor, "backend.drain", name, lambda overlay: overlay.with_drained(name, cause=cause), cause=cause
        )

    async def undrain(self, actor: Actor, name: str) -> PoolChange:
        return await self.on_member(
            actor, "backend.undrain", name, lambda overlay: overlay.without_drained(name)
        )

    async def on_member(
        self, actor: Actor, action: str, name: str, edit: Callable[[Overlay], Overlay], **facts: Any
    ) -> PoolChange:
        """Raises NotFound if no pool has such a member."""
        model = self._pools.keeper.model_of(name)
        if model is None:
            raise NotFound(f"There is no backend named {name!r}.", param="name")
        return await self.on_pool(actor, action, f"backend {name}", model, edit, **facts)

    async def on_pool(
        self,
        actor: Actor,
        action: str,
        target: str,
        model: str,
        edit: Callable[[Overlay], Overlay],
        **facts: Any,
    ) -> PoolChange:
        """Raises NotFound, InvalidRequest, Conflict and Unavailable."""
        keeper = self._pools.keeper
        if keeper.configured(model) is None:
            raise unknown_model(model)
        try:
            with refusals():
                late = await keeper.change(model, edit)
        except Unavailable:
            await self._auditor.record(actor.did(action, target, "unknown"))
            raise
        await self._auditor.record(actor.did(action, target, after={"model": model, **facts}))
        return PoolChange(
            model=model, differences=_diff(self._pools, model).differences, not_acknowledged_by=late
        )


def backends_router(context: AdminContext, acts: PoolActs) -> APIRouter:
    router = APIRouter(prefix="/admin/backends", tags=["backends"])
    _add_views(router, context)
    _add_drains(router, context, acts)
    _add_changes(router, context, acts)
    return router


def _add_views(router: APIRouter, context: AdminContext) -> None:
    pools = context.pools
    reads = [Depends(needs(context, "read"))]

    @router.get("", dependencies=reads, responses=errors())
    async def show(
        model: Annotated[str | None, Query(description="Of this pool only.")] = None,
    ) -> BackendList:
        """Every backend: its state, what it says of itself, and how each worker sees it."""
        told = await pools.told()
        if not told:
            raise Unavailable("No worker answers yet; try again soon.", code="workers_unavailable")
        by_member: dict[str, dict[int, MemberView]] = {}
        for worker, said in told.items():
            for view in said.members:
                if model is None or view.model == model:
                    by_member.setdefault(view.member, {})[worker] = view
        signals, now_s = pools.signals(), time.monotonic()
        return BackendList(
            data=[BackendOut.of(views, signals.get(name), now_s=now_s) for name, views in by_member.items()]
        )

    @router.get("/findings", dependencies=reads, responses=errors())
    async def findings() -> Findings:
        """What the servers are short of, read off a minute of their signals, and which of their flags to turn."""
        return Findings(
            data=[FindingOut.of(finding) for finding in pools.findings()], heard=sorted(pools.signals())
        )

    @router.get("/diff", dependencies=reads, responses=errors())
    async def diff() -> DiffOut:
        """How the pools differ from the configuration by what admins changed."""
        return differing([_diff(pools, model) for model in pools.keeper.models()])

    @router.post("/route/explain", dependencies=reads, responses=errors(404))
    async def explain(asked: RouteRequest) -> RouteOut:
        """Where such a request would go now, and why. Nothing is sent or counted."""
        session = None if asked.session is None else affinity_key(asked.tenant, asked.session)
        told = await pools.explain(
            RouteQuestion(
                asked.model,
                sticky=asked.key_id,
                needs=Needs(context_tokens=asked.context_tokens, modalities=frozenset(asked.modalities)),
                affinity=Affinity(session=session),
            )
        )
        if told is None:
            raise Unavailable("No worker answers yet; try again soon.", code="workers_unavailable")
        if told.explanation is None:
            raise NotFound(told.problem or "Nobody can serve this.", param="model")
        return RouteOut.of(told.explanation)


def _add_drains(router: APIRouter, context: AdminContext, acts: PoolActs) -> None:
    operates = Depends(needs(context, "operate"))

    @router.post("/{name}/drain", responses=errors(404, 409))
    async def drain(name: Name, asked: DrainRequest | None = None, actor: Actor = operates) -> PoolChange:
        """No new requests from now on; those it has may finish. Repeating it does no harm."""
        return await acts.drain(actor, name, (asked or DrainRequest()).cause)

    @router.post("/{name}/undrain", responses=errors(404, 409))
    async def undrain(name: Name, actor: Actor = operates) -> PoolChange:
        """Take it into service again: few requests at first, until it has answered."""
        return await acts.undrain(actor, name)


def _add_changes(router: APIRouter, context: AdminContext, acts: PoolActs) -> None:
    writes = Depends(needs(context, "write"))

    @router.post("/weights", responses=errors(404, 409))
    async def weigh(asked: WeightsRequest, actor: Actor = writes) -> PoolChange:
        """Share out a pool's requests by revision."""
        return await acts.on_pool(
            actor,
            "pool.weigh",
            f"pool {asked.model}",
            asked.model,
            lambda overlay: overlay.with_weights(asked.weights),
            weights=asked.weights,
        )

    @router.post("/reset", responses=errors(404, 409))
    async def reset(asked: ResetRequest, actor: Actor = writes) -> list[PoolChange]:
        """Back to the configuration: forget drains, members and weights that admins set."""
        keeper = context.pools.keeper
        models = (
            [asked.model] if asked.model is not None else [m for m in keeper.models() if m in keeper.overlays]
        )
        return [
            await acts.on_pool(actor, "pool.reset", f"pool {model}", model, lambda _: Overlay())
            for model in models
        ]

    @router.put("/{name}", responses=errors(404, 409))
    async def put(name: Name, asked: MemberRequest, actor: Actor = writes) -> PoolChange:
        """Add a backend to a pool, or replace one of this name there."""
        if asked.api_key_env is not None and asked.api_key_env not in context.pools.keeper.credential_names():
            raise InvalidRequest(
                "api_key_env must be a variable that the configuration gives to a member too.",
                param="api_key_env",
            )
        return await acts.on_pool(
            actor,
            "backend.put",
            f"backend {name}",
            asked.model,
            lambda overlay: overlay.with_member(asked.as_member(name)),
            url=asked.url,
        )

    @router.delete("/{name}", responses=errors(404, 409))
    async def remove(name: Name, actor: Actor = writes) -> PoolChange:
        """Take it out of its pool. Requests it has may finish."""
        return await acts.on_member(
            actor, "backend.remove", name, lambda overlay: overlay.without_member(name)
        )


def _diff(pools: HostPools, model: str) -> PoolDiff:
    overlays: Mapping[str, Overlay] = pools.keeper.overlays
    configured = pools.keeper.configured(model)
    if configured is None or model not in overlays:
        return PoolDiff(model=model, differences=[])
    return PoolDiff(model=model, differences=differences(configured, overlays[model]))


@contextmanager
def refusals() -> Iterator[None]:
    try:
        yield
    except SettingsError as error:
        raise InvalidRequest(f"{error}") from error
    except StateConflict as error:
        raise Conflict(str(error)) from error
    except StateError as error:
        raise Unavailable(
            f"{error}; a change may have been made nonetheless.", code="store_unavailable"
        ) from error
