"""Owns the conversation between the supervisor and one worker: typed messages over a socket pair.

The end of the stream is a message too: it says that the other side is gone.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Generic, TypeVar

import msgspec

from backends import Signals

from ..evidence.desk import AskCache, CacheTold
from ..pools.desk import AskPools, PoolsTold
from ..pools.effective import Specs
from ..telemetry.metrics_merge import Snapshot
from .control import ControlRecord

_LENGTH = 4
_MAX_FRAME = 16 * 1024 * 1024


class AskNumbers(msgspec.Struct, frozen=True, tag=True):
    """To a worker: send your numbers."""


class LiveWorkers(msgspec.Struct, frozen=True, tag=True):
    """To a worker: so many of you are ready."""

    count: int


class Change(msgspec.Struct, frozen=True, tag=True):
    """To a worker: apply this and acknowledge it."""

    change_id: str
    record: ControlRecord


class UsePools(msgspec.Struct, frozen=True, tag=True):
    """To a worker: these are the pools from now on; acknowledge it. The socket pair is nobody else's, so that the
    members' credentials may be in it."""

    change_id: str
    specs: Specs


class HearSignals(msgspec.Struct, frozen=True, tag=True):
    """To a worker: what the model servers said of themselves."""

    signals: list[Signals]


class Drain(msgspec.Struct, frozen=True, tag=True):
    """To a worker: take no new connections, finish what runs within `grace_s`, and end."""

    grace_s: float


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From a worker: it serves."""


class Numbers(msgspec.Struct, frozen=True, tag=True):
    """From a worker: its metrics and readiness."""

    snapshot: Snapshot
    state: str
    reasons: list[str]


class Acknowledged(msgspec.Struct, frozen=True, tag=True):
    """From a worker: the change is in force."""

    change_id: str


class FailedLogins(msgspec.Struct, frozen=True, tag=True):
    """From a worker: who had no right key lately, as (address, public key id if there was one, how often)."""

    failures: list[tuple[str, str | None, int]]


ToWorker = AskNumbers | LiveWorkers | Change | UsePools | HearSignals | AskPools | AskCache | Drain
FromWorker = Ready | Numbers | Acknowledged | FailedLogins | PoolsTold | CacheTold

S = TypeVar("S")
R = TypeVar("R")


class Link(Generic[S, R]):
    """One end: sends messages of type S, receives messages of type R."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, decoder: msgspec.json.Decoder[R]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = decoder

    def send(self, message: S) -> None:
        """Queue a message; to a side that is gone it goes nowhere."""
        if not self._writer.is_closing():
            frame = msgspec.json.encode(message)
            self._writer.write(len(frame).to_bytes(_LENGTH, "big") + frame)

    async def receive(self) -> R | None:
        """The next message; None when the other side is gone."""
        try:
            length = int.from_bytes(await self._reader.readexactly(_LENGTH), "big")
            if length > _MAX_FRAME:
                return None
            return self._decoder.decode(await self._reader.readexactly(length))
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def flush(self) -> None:
        try:
            await self._writer.drain()
        except OSError:
            return  # the other side is gone: nobody is left to read it

    def close(self) -> None:
        self._writer.close()


async def to_worker(end: socket.socket) -> Link[ToWorker, FromWorker]:
    reader, writer = await asyncio.open_connection(sock=end)
    return Link(reader, writer, msgspec.json.Decoder(FromWorker))


async def to_supervisor(end: socket.socket) -> Link[FromWorker, ToWorker]:
    reader, writer = await asyncio.open_connection(sock=end)
    return Link(reader, writer, msgspec.json.Decoder(ToWorker))
