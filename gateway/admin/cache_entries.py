"""The admin API's entries of the cache: what is kept, by whom, in which clusters; and what is to go, or to come in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request
from pydantic import Field, model_validator

from ..errors import NO_RETRY, Forbidden, NotFound
from ..evidence.entry_wishes import (
    CacheStats,
    Chosen,
    ExportEntries,
    FlushNamespace,
    ImportEntries,
    ListEntries,
    RemoveEntries,
    TellClusters,
)
from .access import Actor, needs
from .cache import acted, answer_of
from .cache_chosen import ENTRY_ID, ChosenEntries, EntryTold, Place
from .model import Asked, Listing
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

_Word = Annotated[str, Field(min_length=1, max_length=256)]
TenantFilter = Annotated[str | None, Query(min_length=1, max_length=64)]
Texts = Annotated[bool, Query(description="With texts: for owners, where `admin.shows_texts` is set.")]


class EntriesWish(ChosenEntries):
    limit: Annotated[int, Field(ge=1, le=1000)] = Field(
        100, description="So many, if there are; a page can have some hundred more, where it cannot be cut."
    )
    after: Place | None = None
    texts: bool = Field(
        False, description="What was asked and answered: for owners, where `admin.shows_texts` is set."
    )


class Invalidation(ChosenEntries):
    """Without anything that chooses, it needs `everything`."""

    everything: bool = False
    dry_run: bool = Field(True, description="Only say what would go.")
    after: Place | None = None

    @model_validator(mode="after")
    def _something(self) -> Invalidation:
        if self.everything == self.names_something:
            raise ValueError("say which entries are meant, or everything: true, and not both")
        return self


class Flush(Asked):
    tenant: _Word | None = Field(None, description="Without it, those of all tenants.")
    namespace: Annotated[str, Field(pattern=r"^[a-z0-9._-]{1,64}$")] | None = None
    model: _Word | None = None
    dry_run: bool = Field(True, description="Only say which namespaces would be flushed.")


class ExportWish(ChosenEntries):
    after: Place | None = None


class ImportWish(Asked):
    lines: list[str] = Field(max_length=1_000, description="As an export gave them.")


def entries_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/admin/cache", tags=["cache"])
    _add_reading(router, context)
    _add_removing(router, context)
    _add_transfer(router, context)
    return router


def _add_reading(router: APIRouter, context: AdminContext) -> None:
    reader = Depends(needs(context, "read"))

    @router.get("/stats", responses=errors(), dependencies=[reader])
    async def stats(tenant: TenantFilter = None) -> dict[str, Any]:
        """What each tenant keeps, beside its quota (with `tenant`: by namespace), how a worker's index looks, and
        how many of some entries are sealed."""
        return answer_of(await context.ask_cache(CacheStats(tenant)))

    @router.get("/clusters", responses=errors())
    async def clusters(
        request: Request,
        tenant: Annotated[str, Query(min_length=1, max_length=64)],
        namespace: Annotated[str | None, Query(pattern=r"^[a-z0-9._-]{1,64}$")] = None,
        model: Annotated[str | None, Query(min_length=1, max_length=256)] = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        texts: Texts = False,
        actor: Actor = reader,
    ) -> dict[str, Any]:
        """The largest groups of similar questions, as one worker's index has drawn them: how many entries, how often
        a search led there, how near the nearest was, and how often that answered."""
        if texts:
            actor = await _sees_texts(context, request)
            await context.auditor.record(actor.did("cache.texts", f"clusters of tenant {tenant}"))
        return answer_of(await context.ask_cache(TellClusters(tenant, namespace, model, limit, texts)))

    @router.post("/entries", responses=errors())
    async def entries(request: Request, asked: EntriesWish, actor: Actor = reader) -> Listing[EntryTold]:
        """A page of what is kept. What is stored meanwhile may be missed, and an entry can come twice."""
        if asked.texts:
            actor = await _sees_texts(context, request)
            await context.auditor.record(actor.did("cache.texts", "entries", after=asked.facts()))
        wish = ListEntries(asked.chosen(), asked.limit, asked.after, asked.texts)
        return Listing[EntryTold](**answer_of(await context.ask_cache(wish)))

    @router.get("/entries/{entry_id}", responses=errors(404))
    async def entry(
        request: Request,
        entry_id: Annotated[str, Path(pattern=ENTRY_ID, description="As in `x-cache-id`.")],
        texts: Texts = False,
        actor: Actor = reader,
    ) -> EntryTold:
        if texts:
            actor = await _sees_texts(context, request)
            await context.auditor.record(actor.did("cache.texts", f"entry {entry_id}"))
        wish = ListEntries(Chosen(ids=(entry_id,)), 1, None, texts)
        found = answer_of(await context.ask_cache(wish))["data"]
        if not found:
            raise NotFound(f"There is no entry {entry_id!r} (any more).")
        return EntryTold(**found[0])


def _add_removing(router: APIRouter, context: AdminContext) -> None:
    writer = Depends(needs(context, "write"))

    @router.post("/invalidate", responses=errors())
    async def invalidate(asked: Invalidation, actor: Actor = writer) -> dict[str, Any]:
        """Remove entries, on every worker and host at once, for as long as two seconds: while there is a `next`, ask
        again with it as `after`. What is counted as removed was there and went."""
        wish = RemoveEntries(asked.chosen(), asked.dry_run, asked.after)
        target = "everything" if asked.everything else "entries"
        return await acted(context, wish, actor, "cache.invalidate", target, asked.facts())

    @router.post("/flush", responses=errors())
    async def flush(asked: Flush, actor: Actor = writer) -> dict[str, Any]:
        """Forget whole namespaces, however large: all that were asked in the last month, or the one that is named."""
        wish = FlushNamespace(asked.tenant, asked.namespace, asked.model, asked.dry_run)
        facts = asked.model_dump(exclude_none=True)
        return await acted(context, wish, actor, "cache.flush", asked.tenant or "everything", facts)


def _add_transfer(router: APIRouter, context: AdminContext) -> None:
    owner = Depends(needs(context, "transfer"))

    @router.post("/export", responses=errors())
    async def export(request: Request, asked: ExportWish, actor: Actor = owner) -> dict[str, Any]:
        """A page of entries as lines of JSON, with what was asked and answered."""
        await _sees_texts(context, request)
        wish = ExportEntries(asked.chosen(), asked.after)
        return await acted(context, wish, actor, "cache.export", "entries", asked.facts())

    @router.post("/import", responses=errors())
    async def take_in(asked: ImportWish, actor: Actor = owner) -> dict[str, Any]:
        """Take lines of an export in, and say what became of them; they replace what there is of the same question. In
        two seconds perhaps not all are `taken`: send the others again."""
        return await acted(context, ImportEntries(tuple(asked.lines)), actor, "cache.import", "entries", {})


async def _sees_texts(context: AdminContext, request: Request) -> Actor:
    """Raises ApiError where texts are not for this admin, or for nobody."""
    actor = await needs(context, "read-texts")(request)
    if not context.shows_texts:
        raise Forbidden(
            "Texts are not shown here: set admin.shows_texts: true, if owners may see what was asked and answered.",
            headers=NO_RETRY,
        )
    return actor
