"""Bounds the bodies that the admin plane reads, before anybody has asked whose they are."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MOST_BYTES = 8 << 20  # an import of a thousand records, all of them as large as can be


class BodyLimit:
    """A larger body is a 413, as soon as it is known to be larger."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        seen = int(announced) if announced.isdigit() else 0
        is_announced = seen > 0

        async def bounded() -> Message:
            nonlocal seen
            message = await receive()
            if not is_announced:
                seen += len(message.get("body", b""))
            if seen > MOST_BYTES:
                raise HTTPException(413, f"The body is larger than {MOST_BYTES} bytes.")
            return message

        await self._app(scope, bounded, send)
