"""What a store of any kind promises to its client: to bring a command to the server it belongs to."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .address import Argument, Command


@dataclass(frozen=True, slots=True)
class StoreState:
    """For readiness and metrics. `since_s` is a `time.monotonic()` moment, `reason` says why it is down.

    `server_id` changes when what was acknowledged may be lost: another server took over, or one started anew.
    It is None while no server has told its own.
    """

    is_up: bool
    since_s: float
    reason: str | None
    timeouts: int
    failures: int
    server_id: str | None


class Topology(Protocol):
    @property
    def is_up(self) -> bool: ...

    @property
    def state(self) -> StoreState: ...

    def send(
        self,
        command: Command,
        *,
        deadline: float,
        now: float,
        source: str | None = None,
        like_key: Argument | None = None,
    ) -> asyncio.Future[Any]:
        """To the server that holds the command's key, or `like_key`. `source` is the script's, for EVALSHA."""
        ...

    def send_to_all(self, command: Command, *, deadline: float, now: float) -> Sequence[asyncio.Future[Any]]:
        """To every server that takes writes."""
        ...
