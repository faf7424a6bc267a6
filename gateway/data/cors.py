"""Decides what a browser is told about pages of other origins (CORS). Without configured origins: nothing."""

from __future__ import annotations

import re

from .wire import Headers, Reply, Request

# What a page may read of a reply beside its body.
_EXPOSED = (
    "x-request-id, x-echogate-request-id, x-trace-id, x-cache, x-cache-reason, x-cache-id, x-cache-similarity, age, "
    "x-echogate-backend, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, x-ratelimit-reset-requests, "
    "x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, retry-after, retry-after-ms, "
    "x-should-retry"
)
_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~, -]{1,2048}")  # of headers, as a browser lists them


class Cors:
    """`origins` are exact (`https://app.example.com`), or `*` alone: any, then without credentials."""

    def __init__(
        self, origins: tuple[str, ...] = (), *, has_credentials: bool = False, max_age_s: int = 600
    ) -> None:
        self._origins = frozenset(origin.encode() for origin in origins)
        self._is_open = b"*" in self._origins
        self._has_credentials = has_credentials
        self._max_age = str(max_age_s).encode()

    def __bool__(self) -> bool:
        return bool(self._origins)

    def mark(self, request: Request, reply: Reply) -> None:
        """Let the page that asks read the reply, if it may."""
        reply.headers += self._permission(request)
        if self._permitted(request):
            reply.add("access-control-expose-headers", _EXPOSED)

    def is_preflight(self, request: Request) -> bool:
        asks = b"origin" in request.headers and b"access-control-request-method" in request.headers
        return request.method == "OPTIONS" and asks

    async def preflight(self, request: Request, reply: Reply) -> None:
        """Whether the page may ask. It has no key yet, so nothing else is looked at."""
        reply.headers += self._permission(request)
        if self._permitted(request):
            reply.add("access-control-allow-methods", "GET, HEAD, POST, OPTIONS")
            wanted = request.headers.get(b"access-control-request-headers", b"")
            if _NAMES.fullmatch(wanted):
                reply.headers.append((b"access-control-allow-headers", wanted))
            reply.headers.append((b"access-control-max-age", self._max_age))
        await reply.empty()

    def _permitted(self, request: Request) -> bool:
        origin = request.headers.get(b"origin")
        return origin is not None and (self._is_open or origin in self._origins)

    def _permission(self, request: Request) -> Headers:
        if self._is_open:
            return [(b"access-control-allow-origin", b"*")]
        headers: Headers = [(b"vary", b"origin")]  # on every reply: a cache in between must not mix them up
        if self._permitted(request):
            headers.append((b"access-control-allow-origin", request.headers[b"origin"]))
            if self._has_credentials:
                headers.append((b"access-control-allow-credentials", b"true"))
        return headers
