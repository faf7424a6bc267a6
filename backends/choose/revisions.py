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
        self._members: dict[str, Member] = {}
        self._guessed: list[Member] = []
        self._known: dict[str, Revision] = {}
        self._all_answered = True
        self.update(members)

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

    def update(self, members: Sequence[Member]) -> None:
        """Follow a new configuration; what a server told that stays the same stays known."""
        before, known = self._members, self._known
        self._members = {member.name: member for member in members}
        self._known = {
            member.name: known[member.name]
            if member.name in before and _asks_the_same(before[member.name], member)
            else _initial(member)
            for member in members
        }
        self._guessed = [member for member in members if member.revision is None]
        self._all_answered = not any(revision.is_provisional for revision in self._known.values())

    async def refresh(self) -> bool:
        """Ask every member without a configured revision; whether anything changed.

        A member that does not answer keeps what was last known of it.
        """
        asked = self._guessed
        found = await asyncio.gather(*(self._ask(member) for member in asked))
        if asked is not self._guessed:
            return False  # the members have changed meanwhile; whoever changed them asks anew
        news = {m.name: r for m, r in zip(asked, found, strict=True) if r and r != self._known[m.name]}
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


def _asks_the_same(one: Member, other: Member) -> bool:
    return (one.base_url, one.upstream_model, one.revision) == (
        other.base_url,
        other.upstream_model,
        other.revision,
    )


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
