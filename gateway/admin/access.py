"""Decides who may ask the admin API for what: an admin key, its role, and what that role may do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi import Request
from redis.exceptions import RedisError

from auth import AuditRecord, Facts

from ..errors import NO_RETRY, Forbidden, Unauthorized, Unavailable
from .roles import Permission, may
from .stored_keys import Role

if TYPE_CHECKING:
    from .app import AdminContext

_LONGEST_KEY = 256


@dataclass(frozen=True, slots=True)
class Actor:
    """The admin who asks, and from where."""

    key_id: str
    role: Role
    source_ip: str | None

    def did(
        self,
        action: str,
        target: str,
        outcome: str = "done",
        *,
        before: Facts | None = None,
        after: Facts | None = None,
    ) -> AuditRecord:
        """What is to stand in the audit log; `before` and `after` are facts without secrets."""
        return AuditRecord(
            at_s=time.time(),
            actor=f"admin key {self.key_id}",
            role=self.role,
            action=action,
            target=target,
            outcome=outcome,
            source_ip=self.source_ip,
            before=before,
            after=after,
        )


def needs(context: AdminContext, permission: Permission) -> Callable[[Request], Awaitable[Actor]]:
    """A dependency that gives the actor. Raises Unauthorized, Forbidden or Unavailable."""

    async def actor(request: Request) -> Actor:
        source_ip = request.client.host if request.client is not None else None
        presented = _presented(request)
        try:
            key = await context.admin_keys.authenticate(presented or "")
        except (OSError, RedisError) as error:
            raise Unavailable(
                "Admin keys cannot be checked: the durable store (store.durable) does not answer.",
                code="store_unavailable",
            ) from error
        if key is None:
            context.on_failed_login(source_ip or "unknown")
            raise Unauthorized(
                "Expected an admin key as `Authorization: Bearer …`; the first one is in admin.key in the data "
                "folder of the host that made it.",
                headers={"www-authenticate": "Bearer"} | NO_RETRY,
            )
        actor = Actor(key.key_id, key.role, source_ip)
        if not may(key.role, permission):
            action = f"{request.method} {request.scope['route'].path}"
            await context.auditor.record(actor.did(action, request.url.path[:200], "refused"))
            raise Forbidden(
                f"The role {key.role!r} may not do this; it needs the permission {permission!r}.",
                headers=NO_RETRY,
            )
        if permission not in ("read", "read-audit"):  # texts are only told if that stands in the log
            await context.auditor.require()
        return actor

    return actor


def _presented(request: Request) -> str | None:
    """The key, where exactly one header carries one."""
    sent = request.headers.getlist("authorization")
    if len(sent) != 1 or len(sent[0]) > _LONGEST_KEY:
        return None
    scheme, _, key = sent[0].partition(" ")
    return key.strip() if scheme.lower() == "bearer" else None
