"""LiteLLM's paths for keys, `/key/generate` and its kin: the same acts as `/admin/keys`, in the words of its clients.

Roles, the audit log and the way a change reaches every worker are those of the admin API; only names differ.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Response

from auth import KeyRef, disabled, enabled, mint

from ..errors import NotFound
from .access import Actor, needs
from .acts import Acts, refusals
from .idempotency import IdempotencyKey
from .litellm_model import (
    DeletedKeys,
    GeneratedKey,
    GenerateKey,
    KeyAndInfo,
    KeyInfo,
    NamedKey,
    NamedKeys,
    UpdatedKey,
    UpdateKey,
    id_of,
    info_fields,
)
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


def litellm_router(context: AdminContext, acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/key", tags=["keys, in LiteLLM's words"])
    _add_creation(router, context, acts)
    _add_reading(router, context)
    _add_changes(router, context, acts)
    return router


def _add_creation(router: APIRouter, context: AdminContext, acts: Acts) -> None:
    writer = Depends(needs(context, "write"))

    @router.post("/generate", responses=errors(409, 422))
    async def generate_key(
        asked: GenerateKey,
        response: Response,
        actor: Actor = writer,
        idempotency_key: IdempotencyKey = None,
    ) -> GeneratedKey:
        """Makes a key of the tenant `team_id` (`default`, if there is none)."""

        async def make(secret: str) -> GeneratedKey:
            with refusals():
                record, key = mint(
                    tenant=asked.team_id or "default",
                    service="default",
                    name=asked.key_alias or "",
                    created_at_s=time.time(),
                    limits=context.default_limits,
                    secret=secret,
                )
                record = asked.applied(record)
                if asked.blocked:
                    record = disabled(record, at_s=time.time())
            made = info_fields(await acts.add(actor, record))
            return GeneratedKey(key=key, token_id=record.key_id, **made)

        return await context.once.reply(
            idempotency_key,
            asked_by=(actor.key_id, router.prefix),
            asked=asked,
            shape=GeneratedKey,
            make=make,
            response=response,
        )


def _add_reading(router: APIRouter, context: AdminContext) -> None:
    @router.get("/info", responses=errors(404), dependencies=[Depends(needs(context, "read"))])
    async def key_info(
        key: Annotated[str, Query(max_length=256, description="The key's id, or the key itself.")],
    ) -> KeyAndInfo:
        with refusals():
            record = await context.directory.get(KeyRef(id_of(key)))
        if record is None:
            raise NotFound(f"There is no key with the id {id_of(key)[:64]!r}.")
        return KeyAndInfo(key=record.key_id, info=KeyInfo(**info_fields(record)))


def _add_changes(router: APIRouter, context: AdminContext, acts: Acts) -> None:
    writer, operator = Depends(needs(context, "write")), Depends(needs(context, "operate"))

    @router.post("/update", responses=errors(404, unreplicated=UpdatedKey))
    async def update_key(asked: UpdateKey, response: Response, actor: Actor = writer) -> UpdatedKey:
        """What is not named stays; null takes a limit away."""
        ref = KeyRef(id_of(asked.key))
        record, _ = await acts.change(actor, "update", ref, asked.applied, response)
        return UpdatedKey(key=record.key_id, **info_fields(record))

    @router.post("/delete", responses=errors(404, unreplicated=DeletedKeys))
    async def delete_keys(asked: NamedKeys, response: Response, actor: Actor = writer) -> DeletedKeys:
        """For good, one after the other: where one is not there, those before it are gone."""
        deleted = []
        for key in asked.keys:
            await acts.delete(actor, KeyRef(id_of(key)), response)
            deleted.append(id_of(key))
        return DeletedKeys(deleted_keys=deleted)

    @router.post("/block", responses=errors(404, unreplicated=KeyInfo))
    async def block_key(asked: NamedKey, response: Response, actor: Actor = operator) -> KeyInfo:
        act = partial(disabled, at_s=time.time())
        record, _ = await acts.change(actor, "disable", KeyRef(id_of(asked.key)), act, response)
        return KeyInfo(**info_fields(record))

    @router.post("/unblock", responses=errors(404, unreplicated=KeyInfo))
    async def unblock_key(asked: NamedKey, response: Response, actor: Actor = operator) -> KeyInfo:
        record, _ = await acts.change(actor, "enable", KeyRef(id_of(asked.key)), enabled, response)
        return KeyInfo(**info_fields(record))
