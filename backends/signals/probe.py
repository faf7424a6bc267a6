"""Asks one model server how it is: `/metrics` (else `/load`) and `/health`."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass

from ..errors import UpstreamFailed
from ..interfaces import Backend
from ..model import Health, Member, Outgoing
from .dialects import Reading, read_metrics

_MAX_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Page:
    status: int
    body: bytes


class Probe:
    """Of one member, over the same kind of connections as its requests, and with its credentials.

    What a server does not have (`/metrics` of a plain OpenAI server) is not asked for each time: only every
    twentieth scrape looks whether it is there by now.
    """

    def __init__(self, member: Member, *, backend: Backend, timeout_s: float) -> None:
        self._member = member
        self._backend = backend
        self._timeout_s = timeout_s
        self._skip = 0

    async def scrape(self) -> Reading | None:
        """None where the server says nothing that is understood. Raises `UpstreamFailed` and `TimeoutError`."""
        if self._skip:
            self._skip -= 1
            return None
        page = await self._get("/metrics")
        reading = read_metrics(page.body.decode("utf-8", "replace")) if page.status == 200 else None
        if reading is None:
            reading = _read_load(await self._get("/load"))
        if reading is None:
            self._skip = 19
        return reading

    async def health(self) -> Health:
        """Never raises: silence is an answer as well."""
        try:
            page = await self._get("/health")
        except (UpstreamFailed, TimeoutError):
            return "unreachable"
        if page.status in (404, 405, 401, 403):
            return "unknown"  # not every server has it
        return "ok" if page.status < 400 else "failing"

    async def _get(self, path: str) -> Page:
        async with asyncio.timeout(self._timeout_s):
            reply = await self._backend.send(
                self._member,
                Outgoing("GET", path, {"accept": "*/*"}),
                connect_s=self._timeout_s,
                first_byte_s=self._timeout_s,
            )
            try:
                body = bytearray()
                while len(body) <= _MAX_BYTES and (data := await reply.read()):
                    body += data
                return Page(reply.status, bytes(body))
            finally:
                reply.close()


def _read_load(page: Page) -> Reading | None:
    """vLLM's own count of open requests, the waiting ones included; only kept with its flag for it."""
    if page.status != 200:
        return None
    try:
        load = json.loads(page.body)["server_load"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    is_count = isinstance(load, int | float) and load >= 0
    return Reading("load", {"running": float(load)}) if is_count else None
