"""Sees to it that whatever admins do is in the audit log: nothing more is let happen while something is not.

The act comes first and its record second, as only then it is known what came of it. A record that the log does not
take is kept and tried again; until it is in, further acts are refused.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

import structlog

from auth import AuditEntry, AuditLog, AuditRecord, AuditReport, AuditUnavailable

from ..errors import Unavailable

_log = structlog.get_logger("gateway.admin.auditing")

_CAPACITY = 1_000
_EVERY_S = 1.0


class Auditor:
    """Run `keep_trying` beside it."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._waiting: deque[AuditRecord] = deque()
        self._turn = asyncio.Lock()
        self._trouble = ""

    @property
    def waiting(self) -> int:
        """Records that the log has not taken yet."""
        return len(self._waiting)

    async def record(self, record: AuditRecord) -> None:
        """Into the log, now or as soon as it takes records again. Never fails."""
        if len(self._waiting) >= _CAPACITY:  # of what is refused and of bursts of failures there is no end
            _log.error("an audit record is lost: too many wait", action=record.action, target=record.target)
            return
        self._waiting.append(record)
        await self._write()

    async def require(self) -> None:
        """Raises Unavailable while acts cannot be recorded."""
        await self._write()
        if self._waiting:
            raise Unavailable(
                f"Nothing was changed, as it could not be recorded in the audit log: {self._trouble}",
                code="audit_unavailable",
            )

    async def read(self, *, after: int, limit: int) -> Sequence[AuditEntry]:
        return await self._log.read(after=after, limit=limit)

    async def length(self) -> int:
        return await self._log.length()

    async def verify(self, *, from_checkpoint: bool) -> AuditReport:
        return await self._log.verify(from_checkpoint=from_checkpoint)

    async def keep_trying(self) -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            await self._write()

    async def _write(self) -> None:
        async with self._turn:
            while self._waiting:
                try:
                    await self._log.append(self._waiting[0])
                except AuditUnavailable as error:
                    if str(error) != self._trouble:
                        self._trouble = str(error)
                        _log.error("the audit log takes no records", reason=self._trouble)
                    return
                self._waiting.popleft()
                self._trouble = ""
