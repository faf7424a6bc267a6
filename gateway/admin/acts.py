"""Makes the changes that admins ask for: in the directory, in the audit log, and known to every worker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from fastapi import Response

from auth import (
    AlreadyThere,
    KeyRecord,
    KeysUnavailable,
    NoSuchRecord,
    Record,
    Ref,
    Service,
    StillInUse,
    Tenant,
    Written,
    difference,
    facts_of,
)

from ..errors import ApiError, InvalidRequest, NotFound, Unavailable
from ..host.control import ControlRecord, KeyChanged, TenantChanged
from .access import Actor
from .model import Change

if TYPE_CHECKING:
    from .app import AdminContext

R = TypeVar("R", bound=Record)

UNREPLICATED = 202


class Conflict(ApiError):
    status, type, code = 409, "invalid_request_error", "conflict"


class Acts:
    def __init__(self, context: AdminContext) -> None:
        self._context = context
        self._directory = context.directory

    async def add(self, actor: Actor, record: R) -> R:
        """Raises Conflict if it is there already, InvalidRequest if it may not be."""
        written = await self._made(
            actor, f"{_kind(record)}.create", _name(record), self._directory.add(record)
        )
        await self._note(actor, f"{_kind(record)}.create", _name(record), None, written.record)
        return written.record

    async def change(
        self, actor: Actor, verb: str, ref: Ref[R], change: Callable[[R], R], response: Response
    ) -> tuple[R, Change]:
        """Raises NotFound, and InvalidRequest for what may not be. Sets the status where the store cannot be trusted
        to keep the change."""
        seen: list[R] = []

        def watched(record: R) -> R:
            seen[:] = [record]
            return change(record)

        written = await self._made(actor, verb, str(ref), self._directory.change(ref, watched))
        await self._note(
            actor, f"{_kind(written.record)}.{verb}", _name(written.record), seen[0], written.record
        )
        return written.record, await self._announced(written, response)

    async def delete(self, actor: Actor, ref: Ref[R], response: Response) -> Change:
        """Raises NotFound, and Conflict where others belong to it."""
        written = await self._made(actor, "delete", str(ref), self._directory.delete(ref))
        await self._note(
            actor, f"{_kind(written.record)}.delete", _name(written.record), written.record, None
        )
        return await self._announced(written, response)

    async def _made(self, actor: Actor, verb: str, target: str, act: Awaitable[Written[R]]) -> Written[R]:
        try:
            with refusals():
                return await act
        except Unavailable:
            # It may have been made nonetheless, so it is told.
            await self._context.auditor.record(actor.did(verb, target, "unknown"))
            raise

    async def _note(
        self, actor: Actor, action: str, target: str, before: Record | None, after: Record | None
    ) -> None:
        old, new = (None if each is None else facts_of(each) for each in (before, after))
        if before is not None and after is not None:
            old, new = difference(before, after)
        await self._context.auditor.record(actor.did(action, target, before=old, after=new))

    async def _announced(self, written: Written[R], response: Response) -> Change:
        change_id, late = await self._context.publish(control_record(written.record))
        if not written.is_replicated:
            response.status_code = UNREPLICATED
        return Change(replicated=written.is_replicated, id=change_id, not_acknowledged_by=late)


def control_record(record: Record) -> ControlRecord:
    match record:
        case KeyRecord(key_id=key_id):
            return KeyChanged(key_id)
        case Service(tenant=tenant):
            return TenantChanged(tenant)
        case Tenant(name=name):
            return TenantChanged(name)


@contextmanager
def refusals() -> Iterator[None]:
    """What the directory refuses, as the API's errors. A durable store that is away is a 503."""
    try:
        yield
    except NoSuchRecord as error:
        raise NotFound(str(error)) from error
    except (AlreadyThere, StillInUse) as error:
        raise Conflict(str(error)) from error
    except ValueError as error:
        raise InvalidRequest(str(error)) from error
    except (KeysUnavailable, OSError) as error:
        raise Unavailable(
            "The durable store (store.durable) does not answer; a change may have been made nonetheless.",
            code="store_unavailable",
        ) from error


def _kind(record: Record) -> str:
    return {Tenant: "tenant", Service: "service", KeyRecord: "key"}[type(record)]


def _name(record: Record) -> str:
    match record:
        case Tenant(name=name):
            return f"tenant {name}"
        case Service(tenant=tenant, name=name):
            return f"service {tenant}/{name}"
        case KeyRecord(key_id=key_id):
            return f"key {key_id}"
