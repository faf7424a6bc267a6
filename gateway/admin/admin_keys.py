"""The admin API's own keys: who may administer, and in which role. Owners only."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from fastapi import APIRouter, Depends, Response
from msgspec.structs import replace
from pydantic import BaseModel, Field
from redis.exceptions import RedisError

from ..errors import NotFound, Unavailable
from .access import Actor, needs
from .acts import UNREPLICATED, Conflict
from .idempotency import IdempotencyKey
from .model import Asked, moment, moment_or_none
from .model_records import Note
from .replies import errors
from .stored_keys import AdminKey, AdminKeyError, NoSuchAdminKey, disabled, mint

if TYPE_CHECKING:
    from .app import AdminContext

RoleName = Literal["owner", "admin", "operator", "viewer"]


class AdminKeyRequest(Asked):
    name: Note = ""
    role: RoleName = Field(
        description="viewer: look. operator: also disable and enable. admin: also make, change and delete, and read "
        "the audit log. owner: also admin keys, export and import."
    )


class AdminKeyUpdate(Asked):
    name: Note | None = None
    role: RoleName | None = None


class AdminKeyOut(BaseModel):
    object: Literal["admin_key"] = "admin_key"
    id: str
    name: str
    role: RoleName
    created_at: datetime
    disabled_at: datetime | None

    @classmethod
    def of(cls, key: AdminKey) -> AdminKeyOut:
        return cls(**_fields(key))


class NewAdminKey(AdminKeyOut):
    key: str = Field(description="The key itself, `ega-<id>-<secret>`. It is shown now and never again.")


class ChangedAdminKey(AdminKeyOut):
    replicated: bool = Field(description="False, with status 202: see `Change`.")


class AdminKeyList(BaseModel):
    object: Literal["list"] = "list"
    data: list[AdminKeyOut]


class DeletedAdminKey(BaseModel):
    object: Literal["admin_key"] = "admin_key"
    id: str
    deleted: Literal[True] = True
    replicated: bool


def admin_keys_router(context: AdminContext) -> APIRouter:
    owner = Depends(needs(context, "admin-keys"))
    router = APIRouter(prefix="/admin/admin-keys", tags=["admin keys"])

    async def changed(
        actor: Actor, verb: str, key_id: str, change: Callable[[AdminKey], AdminKey], response: Response
    ) -> ChangedAdminKey:
        with _refusals():
            before, after, is_replicated = await context.admin_keys.change(key_id, change)
        await context.auditor.record(
            actor.did(f"admin-key.{verb}", f"admin key {key_id}", before=_facts(before), after=_facts(after))
        )
        if not is_replicated:
            response.status_code = UNREPLICATED
        return ChangedAdminKey(**_fields(after), replicated=is_replicated)

    @router.post("", status_code=201, responses=errors(409, 422))
    async def create_admin_key(
        asked: AdminKeyRequest,
        response: Response,
        actor: Actor = owner,
        idempotency_key: IdempotencyKey = None,
    ) -> NewAdminKey:
        """The key itself is in this answer and nowhere else."""

        async def make(secret: str) -> NewAdminKey:
            record, key = mint(asked.name, asked.role, at_s=time.time(), secret=secret)
            with _refusals():
                await context.admin_keys.add(record)
            target = f"admin key {record.key_id}"
            await context.auditor.record(actor.did("admin-key.create", target, after=_facts(record)))
            return NewAdminKey(**_fields(record), key=key)

        return await context.once.reply(
            idempotency_key,
            asked_by=(actor.key_id, router.prefix),
            asked=asked,
            shape=NewAdminKey,
            make=make,
            response=response,
        )

    @router.get("", responses=errors(), dependencies=[owner])
    async def list_admin_keys() -> AdminKeyList:
        """All of them; there may be 256."""
        with _refusals():
            return AdminKeyList(data=[AdminKeyOut.of(key) for key in await context.admin_keys.all()])

    @router.patch("/{key_id}", responses=errors(404, 409, unreplicated=ChangedAdminKey))
    async def update_admin_key(
        key_id: str, asked: AdminKeyUpdate, response: Response, actor: Actor = owner
    ) -> ChangedAdminKey:
        said = asked.model_dump(exclude_none=True)
        return await changed(actor, "update", key_id, lambda key: replace(key, **said), response)

    @router.post("/{key_id}/disable", responses=errors(404, 409, unreplicated=ChangedAdminKey))
    async def disable_admin_key(key_id: str, response: Response, actor: Actor = owner) -> ChangedAdminKey:
        return await changed(actor, "disable", key_id, partial(disabled, at_s=time.time()), response)

    @router.post("/{key_id}/enable", responses=errors(404, 409, unreplicated=ChangedAdminKey))
    async def enable_admin_key(key_id: str, response: Response, actor: Actor = owner) -> ChangedAdminKey:
        return await changed(actor, "enable", key_id, lambda key: replace(key, disabled_at_s=None), response)

    @router.delete("/{key_id}", responses=errors(404, 409, unreplicated=DeletedAdminKey))
    async def delete_admin_key(key_id: str, response: Response, actor: Actor = owner) -> DeletedAdminKey:
        with _refusals():
            key, is_replicated = await context.admin_keys.delete(key_id)
        target = f"admin key {key_id}"
        await context.auditor.record(actor.did("admin-key.delete", target, before=_facts(key)))
        if not is_replicated:
            response.status_code = UNREPLICATED
        return DeletedAdminKey(id=key_id, replicated=is_replicated)

    return router


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except NoSuchAdminKey as error:
        raise NotFound(str(error)) from error
    except AdminKeyError as error:
        raise Conflict(str(error)) from error
    except (OSError, RedisError) as error:
        raise Unavailable(
            "The durable store (store.durable) does not answer; a change may have been made nonetheless.",
            code="store_unavailable",
        ) from error


def _fields(key: AdminKey) -> dict[str, Any]:
    return {
        "id": key.key_id,
        "name": key.name,
        "role": key.role,
        "created_at": moment(key.created_at_s),
        "disabled_at": moment_or_none(key.disabled_at_s),
    }


def _facts(key: AdminKey) -> dict[str, object]:
    return {"name": key.name, "role": key.role, "disabled_at_s": key.disabled_at_s}
