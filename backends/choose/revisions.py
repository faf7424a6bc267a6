"""The revision of each member: configured, or guessed from what the server tells of itself.

A member that has not answered yet gets a provisional revision that nothing else ever has: what was cached under it
is never found again once the true one is known.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import UpstreamFailed
from ..interfaces import Backend
from ..model import Member, Outgoing

_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Revision:
    label: str
    is_guessed: bool = False
    is_provisional: bool = False


class Revisions:
    """What is known of each member now. Servers are asked through the backend that also sends to them."""

    def __init__(self, members: Sequence[Member], *, backend: Backend, timeout_s: float) -> None:
        self._backend = backend
        self._timeout_s = timeout_s
        self._guessed = [member for member in members if member.revision is None]
        self._known = {member.name: _initial(member) for member in members}
        self._all_answered = not self._guessed

    def __getitem__(self, member: str) -> Revision:
        return self._known[member]

    @property
    def has_guesses(self) -> bool:
        """Whether there is anyone to ask."""
        return bool(self._guessed)

    @property
    def are_complete(self) -> bool:
        """Whether every member answered when last asked."""
        return self._all_answered

    async def refresh(self) -> bool:
        """Ask every member without a configured revision; whether anything changed.

        A member that does not answer keeps what was last known of it.
        """
        found = await asyncio.gather(*(self._ask(member) for member in self._guessed))
        news = {
            m.name: r for m, r in zip(self._guessed, found, strict=True) if r and r != self._known[m.name]
        }
        self._known.update(news)
        self._all_answered = all(found)
        return bool(news)

    async def _ask(self, member: Member) -> Revision | None:
        try:
            async with asyncio.timeout(self._timeout_s):
                models = await self._get(member, "/v1/models")
                version = await self._get(member, "/version")
        except (UpstreamFailed, TimeoutError):
            return None
        entry = _model_entry(models, member.upstream_model)
        if entry is None:
            return None
        # `meta` is where llama.cpp, which knows neither root nor version, tells of the file it serves.
        told = [
            member.upstream_model,
            *(entry.get(key) for key in ("root", "max_model_len", "meta")),
            version,
        ]
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
        return Revision(f"guess-{digest[:16]}", is_guessed=True)

    async def _get(self, member: Member, path: str) -> object:
        """The JSON there; None where there is none."""
        request = Outgoing("GET", path, {"accept": "application/json"})
        reply = await self._backend.send(
            member, request, connect_s=self._timeout_s, first_byte_s=self._timeout_s
        )
        try:
            body = bytearray()
            while len(body) <= _MAX_BYTES and (data := await reply.read()):
                body += data
        finally:
            reply.close()
        try:
            return json.loads(body) if reply.status == 200 else None
        except (ValueError, RecursionError):
            return None


def _initial(member: Member) -> Revision:
    if member.revision is not None:
        return Revision(member.revision)
    return Revision(f"unknown-{secrets.token_hex(8)}", is_guessed=True, is_provisional=True)


def _model_entry(models: object, upstream_model: str) -> dict[str, object] | None:
    """The model's own entry, else the first one (llama.cpp serves any name)."""
    listed = models.get("data") if isinstance(models, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    named = [entry for entry in entries if entry.get("id") == upstream_model]
    return next(iter(named or entries), None)
