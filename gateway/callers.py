"""Decides whom a request of the data plane speaks for, and tells who had no right key."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from auth import Authenticator, AuthError, KeysUnavailable, Principal

from .data.wire import Request
from .errors import from_auth
from .telemetry import spans
from .telemetry.timeline import Timeline

_KEY_ID = re.compile(rb"\beg-([a-z0-9]{12})-").search


class Callers:
    """`on_failed_login` is told the address and the public key id (None: there was none)."""

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        store_deadline_s: float,
        on_failed_login: Callable[[str, str | None], None],
    ) -> None:
        self._authenticator = authenticator
        self._store_deadline_s = store_deadline_s
        self._on_failed_login = on_failed_login

    async def identify(self, request: Request, timeline: Timeline) -> Principal:
        """Raises ApiError."""
        started = time.monotonic()
        try:
            principal = await self._authenticator.authenticate(
                request.raw_headers, deadline=started + self._store_deadline_s
            )
        except AuthError as error:
            refusal = from_auth(error)
            spans.note_authentication(timeline, started, time.monotonic(), error=refusal.code)
            if not isinstance(error, KeysUnavailable):
                self._on_failed_login(request.client, _key_id(request))
            raise refusal from error
        timeline.tenant, timeline.service, timeline.key_id = (
            principal.tenant,
            principal.service,
            principal.key_id,
        )
        spans.note_authentication(timeline, started, time.monotonic())
        return principal


def _key_id(request: Request) -> str | None:
    for name in (b"authorization", b"x-api-key", b"api-key"):
        if (found := _KEY_ID(request.headers.get(name, b"")[:256])) is not None:
            return found[1].decode()
    return None
