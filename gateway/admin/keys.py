"""The admin API's keys: make, list, look at, change, rotate, disable, enable, delete."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Query, Response

from auth import KeyRecord, KeyRef, disabled, enabled, mint, new_secret, plaintext, rotated

from ..errors import NotFound
from .access import Actor, needs
from .acts import Acts, refusals
from .idempotency import IdempotencyKey
from .model import After, Deleted, Listing, PageSize
from .model_records import (
    ChangedKey,
    KeyDetail,
    KeyOut,
    KeyRequest,
    KeyUpdate,
    NewKey,
    RotatedKey,
    RotateRequest,
    State,
    expiry,
    key_fields,
    policy_of,
    state_of,
)
from .model_rights import RightsModel
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext


def keys_router(context: AdminContext, acts: Acts) -> APIRouter:
    router = APIRouter(prefix="/admin/keys", tags=["keys"])
    _add_creation(router, context, acts)
    _add_reading(router, context)
    _add_changes(router, context, acts)
    _add_switches(router, context, acts)
    return router


def _add_creation(router: APIRouter, context: AdminContext, acts: Acts) -> None:
    writer = Depends(needs(context, "write"))

    @router.post("", status_code=201, responses=errors(409, 422))
    async def create_key(
        asked: KeyRequest,
        response: Response,
        actor: Actor = writer,
        idempotency_key: IdempotencyKey = None,
    ) -> NewKey:
        """The key itself is in this answer and nowhere else. Of its secret only a SHA-256 is kept."""

        async def make(secret: str) -> NewKey:
            with refusals():
                record, key = mint(
                    tenant=asked.tenant,
                    service=asked.service,
                    name=asked.name,
                    created_at_s=time.time(),
                    limits=asked.limits.over(context.default_limits),
                    policy=policy_of(asked.policy),
                    metadata=asked.metadata,
                    expires_at_s=expiry(asked.expires_at),
                    secret=secret,
                )
            return NewKey(**key_fields(await acts.add(actor, record)), key=key)

        return await context.once.reply(
            idempotency_key,
            asked_by=(actor.key_id, router.prefix),
            asked=asked,
            shape=NewKey,
            make=make,
            response=response,
        )


def _add_reading(router: APIRouter, context: AdminContext) -> None:
    reader = Depends(needs(context, "read"))

    @router.get("", responses=errors(), dependencies=[reader])
    async def list_keys(
        tenant: str | None = None,
        service: Annotated[str | None, Query(description="Needs its `tenant`.")] = None,
        state: State | None = None,
        name: Annotated[str | None, Query(description="Part of the name.")] = None,
        limit: PageSize = 100,
        after: After = None,
    ) -> Listing[KeyOut]:
        """Newest first, those that work no more too."""
        now_s = time.time()

        def is_asked_for(record: KeyRecord) -> bool:
            return state in (None, state_of(record, now_s=now_s)) and (name is None or name in record.name)

        with refusals():
            page = await context.directory.keys(
                tenant=tenant, service=service, limit=limit, after=after, where=is_asked_for
            )
        data = [KeyOut.of(record) for record in page.records]
        return Listing(data=data, has_more=page.next is not None, next=page.next)

    @router.get("/{key_id}", responses=errors(404), dependencies=[reader])
    async def get_key(key_id: str) -> KeyDetail:
        with refusals():
            record = await context.directory.get(KeyRef(key_id))
            lineage = await context.directory.find(key_id) if record is not None else None
        if record is None or lineage is None:
            raise NotFound(f"There is no key with the id {key_id[:64]!r}.")
        rights = context.rights
        for level in (lineage.tenant, lineage.service, lineage.key):
            rights = rights.under(level.policy)
        return KeyDetail(**key_fields(record), effective=RightsModel.of(rights))


def _add_changes(router: APIRouter, context: AdminContext, acts: Acts) -> None:
    writer = Depends(needs(context, "write"))

    @router.patch("/{key_id}", responses=errors(404, unreplicated=ChangedKey))
    async def update_key(
        key_id: str, asked: KeyUpdate, response: Response, actor: Actor = writer
    ) -> ChangedKey:
        record, change = await acts.change(actor, "update", KeyRef(key_id), asked.applied_to_key, response)
        return ChangedKey(**key_fields(record), change=change)

    @router.post("/{key_id}/rotate", responses=errors(404, unreplicated=RotatedKey))
    async def rotate_key(
        key_id: str,
        response: Response,
        actor: Actor = writer,
        asked: RotateRequest = _A_DAY,
    ) -> RotatedKey:
        """Give the key a new secret, which is in this answer and nowhere else. The old one works on for a while."""
        secret = new_secret()
        act = partial(rotated, secret=secret, at_s=time.time(), grace_s=asked.grace_s)
        record, change = await acts.change(actor, "rotate", KeyRef(key_id), act, response)
        return RotatedKey(**key_fields(record), key=plaintext(key_id, secret), change=change)

    @router.delete("/{key_id}", responses=errors(404, unreplicated=Deleted))
    async def delete_key(key_id: str, response: Response, actor: Actor = writer) -> Deleted:
        """For good. Answers once this host's workers refuse it."""
        change = await acts.delete(actor, KeyRef(key_id), response)
        return Deleted(object="key", id=key_id, change=change)


def _add_switches(router: APIRouter, context: AdminContext, acts: Acts) -> None:
    operator = Depends(needs(context, "operate"))

    @router.post("/{key_id}/disable", responses=errors(404, unreplicated=ChangedKey))
    async def disable_key(key_id: str, response: Response, actor: Actor = operator) -> ChangedKey:
        """Answers once this host's workers refuse it; repeating it does no harm."""
        act = partial(disabled, at_s=time.time())
        record, change = await acts.change(actor, "disable", KeyRef(key_id), act, response)
        return ChangedKey(**key_fields(record), change=change)

    @router.post("/{key_id}/enable", responses=errors(404, unreplicated=ChangedKey))
    async def enable_key(key_id: str, response: Response, actor: Actor = operator) -> ChangedKey:
        record, change = await acts.change(actor, "enable", KeyRef(key_id), enabled, response)
        return ChangedKey(**key_fields(record), change=change)


_A_DAY = RotateRequest()
