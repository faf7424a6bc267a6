"""LiteLLM's paths for the cache: the same acts as under `/admin/cache`, in the words of its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from ..evidence.entry_wishes import Chosen, FlushNamespace, ListEntries, RemoveEntries
from .access import Actor, needs
from .cache import acted, answer_of
from .cache_chosen import EntryId
from .model import Asked
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


class Ping(BaseModel):
    status: Literal["healthy"] = "healthy"
    cache_type: Literal["redis"] = "redis"
    ping_response: Literal[True] = True


class Keys(Asked):
    keys: list[EntryId] = Field(min_length=1, max_length=1_000, description="Entries, as in `x-cache-id`.")


class Done(BaseModel):
    status: Literal["success"] = "success"


def litellm_cache_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/cache", tags=["cache, in LiteLLM's words"])
    writer = Depends(needs(context, "write"))

    @router.get("/ping", responses=errors(), dependencies=[Depends(needs(context, "read"))])
    async def ping() -> Ping:
        """503 where no worker, or the cache's store, answers."""
        answer_of(await context.ask_cache(ListEntries(Chosen(ids=("0" * 16,)), 1)))
        return Ping()

    @router.post("/delete", responses=errors())
    async def delete(asked: Keys, actor: Actor = writer) -> Done:
        wish = RemoveEntries(Chosen(ids=tuple(asked.keys)), is_dry_run=False)
        await acted(context, wish, actor, "cache.invalidate", "entries", {"ids": asked.keys})
        return Done()

    @router.post("/flushall", responses=errors())
    async def flush_all(actor: Actor = writer) -> Done:
        """Of all tenants, at once: there is no dry run."""
        await acted(context, FlushNamespace(is_dry_run=False), actor, "cache.flush", "everything", {})
        return Done()

    return router
