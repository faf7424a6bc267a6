"""Compresses replies for whoever asks for it: which coding, and when it pays. Streams only where configured."""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Sequence
from typing import Literal

import brotli

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Compression = Literal["off", "replies", "streams"]

LEAST_BYTES = 1024  # below, the headers cost as much as is saved
_OFF_LOOP_BYTES = 128 << 10  # more would stop the loop for over a millisecond
_GZIP = 31  # zlib's number for gzip with the largest window
_STREAM_GZIP, _STREAM_MEMORY = (
    16 + 12,
    5,
)  # a window of 4 KiB: a stream is held open for long, by many at a time

# The fast levels: what they cost is noise beside the answer.
_CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "zstd": lambda body: zstd.compress(body, 1),
    "br": lambda body: brotli.compress(body, quality=1),
    "gzip": lambda body: zlib.compress(body, 1, _GZIP),
}


def choose(accept_encoding: bytes, offered: Sequence[str] = ("zstd", "br", "gzip")) -> str | None:
    """The offered coding that the header likes best, of equal ones the first; None: as it is."""
    weights: dict[str, float] = {}
    for item in accept_encoding.decode("latin-1").lower().split(",")[:32]:
        name, _, parameters = item.partition(";")
        weights[name.strip()] = _weight(parameters)
    weights["gzip"] = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    best = max(offered, key=lambda coding: weights.get(coding, 0.0))
    weight = weights.get(best, 0.0)
    return best if weight > 0 and weight >= weights.get("identity", 0.0) else None


def _weight(parameters: str) -> float:
    name, _, value = parameters.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if 0 <= weight <= 1 else 0.0


async def compressed(body: bytes, coding: str) -> bytes:
    if len(body) > _OFF_LOOP_BYTES:
        return await asyncio.to_thread(_CODINGS[coding], body)
    return _CODINGS[coding](body)


class StreamGzip:
    """Each event leaves as it comes, compressed by what came before."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(1, zlib.DEFLATED, _STREAM_GZIP, _STREAM_MEMORY)

    def feed(self, block: bytes) -> bytes:
        return self._zlib.compress(block) + self._zlib.flush(zlib.Z_SYNC_FLUSH)

    def end(self, block: bytes) -> bytes:
        return self._zlib.compress(block) + self._zlib.flush()
