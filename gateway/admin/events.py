"""Takes word of what becomes of servers, as CloudEvents: a spot instance is about to be taken away, maintenance begins.

Sent by an operator, or by whoever holds the secret for signing: clouds and node agents have no admin key.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Request

from backends import Notice, read_notice

from ..errors import NO_RETRY, InvalidRequest, TooLarge, Unauthorized
from ..pools.host import HostPools
from .access import Actor, needs
from .backends import PoolActs
from .model_backends import EventOut
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

_LARGEST = 64 << 10
_NEWEST_S, _OLDEST_S = 60.0, 300.0  # how far a signature's clock may be off
_SIGNATURE = "x-echogate-signature"
# Where clouds and agents name the instance in an event's data.
_PLACES = (
    "backend",
    "instance-id",
    "instance_id",
    "instanceId",
    "instance",
    "host",
    "hostname",
    "ip",
    "address",
    "node",
)


def events_router(context: AdminContext, acts: PoolActs) -> APIRouter:
    router = APIRouter(prefix="/admin/events", tags=["backends"])
    by_key = needs(context, "operate")

    @router.post(
        "",
        responses=errors(),
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"application/cloudevents+json": {"schema": {"type": "object"}}},
            }
        },
    )
    async def take(request: Request) -> EventOut:
        """A CloudEvent, structured or binary. Backends are found by name, or by host in their URL, in the event's
        `subject` or data. Types that tell of preemption, maintenance or scaling in drain; those that tell of an end
        of it restore what such an event drained. With `x-echogate-signature: t=<unix seconds>,v1=<hex>`, an
        HMAC-SHA256 of `<t>.<body>` under the secret in `admin.events_secret_env`, no admin key is needed."""
        body = await _read(request)
        actor = _signed(context, request, body) or await by_key(request)
        event_type, names = read_event(request.headers, body)
        notice = read_notice(event_type)
        found = _backends(context.pools, names)
        if notice is None or not found:
            return EventOut(action="none", cause=None, backends=[])
        return await _act(acts, actor, notice, found, context.pools)

    return router


async def _act(acts: PoolActs, actor: Actor, notice: Notice, names: list[str], pools: HostPools) -> EventOut:
    if notice.action == "drain":
        cause = notice.cause or "maintenance"
        for name in names:
            await acts.drain(actor, name, cause)
        return EventOut(action="drain", cause=cause, backends=names)
    # What an admin drained by hand stays drained, whatever a cloud says.
    by_event = [name for name in names if _drained_for(pools, name) not in (None, "admin")]
    for name in by_event:
        await acts.undrain(actor, name)
    return EventOut(action="restore", cause=None, backends=by_event)


def _drained_for(pools: HostPools, name: str) -> str | None:
    for overlay in pools.keeper.overlays.values():
        if name in overlay.drained:
            return overlay.drained[name]
    return None


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for data in request.stream():
        body += data
        if len(body) > _LARGEST:
            raise TooLarge(f"An event is at most {_LARGEST} bytes.")
    return bytes(body)


def _signed(context: AdminContext, request: Request, body: bytes) -> Actor | None:
    """Who signed it; None where it is not signed. Raises Unauthorized for a signature that is not right."""
    header = request.headers.get(_SIGNATURE)
    if header is None:
        return None
    source_ip = request.client.host if request.client is not None else None
    parts = dict(part.strip().split("=", 1) for part in header.split(",") if "=" in part)
    sent = parts.get("t", "")
    secret = context.events_secret
    expected = hmac.new(secret or b"", sent.encode() + b"." + body, hashlib.sha256).hexdigest()
    is_right = hmac.compare_digest(expected.encode(), parts.get("v1", "").encode())
    is_now = sent.isascii() and sent.isdigit() and -_OLDEST_S <= int(sent[:12]) - time.time() <= _NEWEST_S
    if secret is None or not is_right or not is_now:
        context.on_failed_login(source_ip or "unknown")
        raise Unauthorized(
            "The event's signature is not right, too old, or admin.events_secret_env is not set.",
            headers=NO_RETRY,
        )
    return Actor("signed event", "operator", source_ip)


def read_event(headers: Mapping[str, str], body: bytes) -> tuple[str, set[str]]:
    """The type, and every word in it that may name a backend. Raises InvalidRequest."""
    try:
        content: Any = json.loads(body) if body else {}
    except (ValueError, RecursionError) as error:
        raise InvalidRequest("The event is not valid JSON.") from error
    if (event_type := headers.get("ce-type")) is not None:
        subject, data = headers.get("ce-subject"), content
    elif isinstance(content, dict) and isinstance(content.get("type"), str):
        event_type, subject, data = content["type"], content.get("subject"), content.get("data")
    elif isinstance(content, dict) and isinstance(
        content.get("detail-type"), str
    ):  # AWS EventBridge, as it comes
        event_type, subject, data = content["detail-type"], None, content.get("detail")
    else:
        raise InvalidRequest(
            "Expected a CloudEvent with a `type`, in the body or as the header ce-type.", param="type"
        )
    named = {subject} if isinstance(subject, str) else set()
    if isinstance(data, dict):
        named |= {value for place in _PLACES if isinstance(value := data.get(place), str)}
    # A subject may be a path to the instance: its last part is the name.
    return event_type[:256], {word for text in named for word in (text, text.rstrip("/").rpartition("/")[2])}


def _backends(pools: HostPools, names: set[str]) -> list[str]:
    return [
        member.name
        for spec in pools.keeper.specs.values()
        for member in spec.pool.members
        if member.name in names or urlsplit(member.base_url).hostname in names
    ]
