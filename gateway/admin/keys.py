"""Decides who may manage keys, and does it: create, list, revoke."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Depends, Header

from auth import KeyRef, KeysUnavailable, NoSuchRecord, disabled, mint

from ..control import KeyChanged
from ..errors import NO_RETRY, InvalidRequest, NotFound, Unauthorized, Unavailable
from .model import Change, Error, Key, KeyList, KeyRequest, NewKey, RevokedKey, limits_of

if TYPE_CHECKING:
    from .app import AdminContext

_ERRORS: dict[int | str, dict[str, object]] = {
    401: {"model": Error, "description": "No admin key, or the wrong one"},
    503: {"model": Error, "description": "The durable store does not answer"},
}


def keys_router(context: AdminContext) -> APIRouter:
    async def need_admin_key(authorization: Annotated[str, Header()] = "") -> None:
        expected = context.admin_key()
        if expected is None:
            raise Unavailable("Echogate is starting: the durable store has not answered yet.")
        if not expected.exists:
            raise Unauthorized(
                "There is no admin key: it is made at a start with admin.bind on a loopback address.",
                headers=NO_RETRY,
            )
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer" or not expected.is_right(key.strip()):
            raise Unauthorized(
                "Expected the admin key as `Authorization: Bearer …`; it is in admin.key in the data folder.",
                headers={"www-authenticate": "Bearer"} | NO_RETRY,
            )

    router = APIRouter(
        prefix="/admin/keys", tags=["keys"], dependencies=[Depends(need_admin_key)], responses=_ERRORS
    )

    @router.post("", status_code=201)
    async def create(asked: KeyRequest) -> NewKey:
        """Make a key. Its secret is in this answer and nowhere else."""
        try:
            record, secret = mint(
                tenant=asked.tenant,
                service=asked.service,
                name=asked.name,
                limits=limits_of(asked.limit, context.default_limits),
                created_at_s=time.time(),
            )
        except ValueError as error:
            raise InvalidRequest(str(error)) from error
        with _store_trouble():
            await context.directory.add(record)
        return NewKey.with_secret(record, secret)

    @router.get("")
    async def show() -> KeyList:
        """All keys, newest first, revoked ones too. Secrets are not kept, so not shown."""
        with _store_trouble():
            page = await context.directory.keys(limit=1000)
        return KeyList(data=[Key.of(record) for record in page.records])

    @router.delete("/{key_id}", responses={404: {"model": Error}})
    async def revoke(key_id: str) -> RevokedKey:
        """Revoke a key. Answers once this host's workers refuse it; repeating it does no harm."""
        with _store_trouble():
            try:
                written = await context.directory.change(KeyRef(key_id), partial(disabled, at_s=time.time()))
            except NoSuchRecord as error:
                raise NotFound(f"There is no key with the id {key_id!r}.", param="key_id") from error
            change_id, late = await context.publish(KeyChanged(key_id))
        return RevokedKey.with_change(written.record, Change(id=change_id, not_acknowledged_by=late))

    return router


@contextmanager
def _store_trouble() -> Iterator[None]:
    """A durable store that is away is a 503, whichever call finds out."""
    try:
        yield
    except (KeysUnavailable, OSError) as error:
        raise Unavailable(
            "The durable store (store.durable) does not answer; nothing is known to have changed.",
            code="store_unavailable",
        ) from error
