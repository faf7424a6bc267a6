"""Unpacks compressed request bodies without ever unpacking more than may be: gzip, deflate, br, zstd.

Bounds: the limit of bodies, and a ratio. A few kilobytes can unpack to gigabytes; no text does so honestly.
"""

from __future__ import annotations

import asyncio
import sys
import zlib
from collections.abc import Callable, Iterator

import brotli

from ..errors import InvalidRequest
from .refusals import too_dense, too_large, unsupported_coding

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_STEP_BYTES = 64 << 10
_MOST_RATIO, _RATIO_COUNTS_FROM = 250, 1 << 20
# What is no larger than this unpacks to 1 MiB at most (see the ratio), which takes no longer than a millisecond.
_ON_LOOP_BYTES = _RATIO_COUNTS_FROM // _MOST_RATIO
_WINDOW_LOG = 23  # 8 MiB, the most that HTTP grants zstd (RFC 9659)

Pieces = Iterator[bytes]


async def decompressed(body: bytes, coding: str, *, limit_bytes: int) -> bytes:
    """Raises InvalidRequest (400, 415) and TooLarge."""
    unpack = _CODINGS.get(coding)
    if unpack is None:
        raise unsupported_coding(coding, "gzip, deflate, br, zstd")
    if len(body) <= _ON_LOOP_BYTES:
        return _bounded(unpack(body), coding, packed_bytes=len(body), limit_bytes=limit_bytes)
    return await asyncio.to_thread(
        _bounded, unpack(body), coding, packed_bytes=len(body), limit_bytes=limit_bytes
    )


def _bounded(pieces: Pieces, coding: str, *, packed_bytes: int, limit_bytes: int) -> bytes:
    data = bytearray()
    try:
        for piece in pieces:
            data += piece
            if len(data) > limit_bytes:
                raise too_large(limit_bytes)
            if len(data) > _RATIO_COUNTS_FROM and len(data) > packed_bytes * _MOST_RATIO:
                raise too_dense(_MOST_RATIO)
    except (zlib.error, brotli.error, zstd.ZstdError, EOFError) as error:
        raise InvalidRequest(
            f"The body is not what its Content-Encoding {coding!r} says: it cannot be unpacked.",
            code="invalid_encoding",
        ) from error
    return bytes(data)


def _gzip(body: bytes) -> Pieces:
    return _zlib(body, 31)


def _deflate(body: bytes) -> Pieces:
    # The standard means zlib's format; some clients send bare deflate, whose first two bytes are no such header.
    has_header = len(body) > 1 and body[0] & 0x0F == 8 and (body[0] << 8 | body[1]) % 31 == 0
    return _zlib(body, zlib.MAX_WBITS if has_header else -zlib.MAX_WBITS)


def _zlib(body: bytes, window: int) -> Pieces:
    unpacker = zlib.decompressobj(window)
    yield unpacker.decompress(body, _STEP_BYTES)
    while not unpacker.eof:
        piece = unpacker.decompress(unpacker.unconsumed_tail, _STEP_BYTES)
        if not piece and not unpacker.eof:
            raise EOFError
        yield piece
    if unpacker.unused_data:
        raise EOFError


def _br(body: bytes) -> Pieces:
    unpacker = brotli.Decompressor()
    yield unpacker.process(body, output_buffer_limit=_STEP_BYTES)
    while not unpacker.is_finished():
        piece = unpacker.process(b"", output_buffer_limit=_STEP_BYTES)
        if not piece and not unpacker.is_finished():
            raise EOFError
        yield piece


def _zstd(body: bytes) -> Pieces:
    options: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}
    while body:  # it may consist of several frames
        unpacker = zstd.ZstdDecompressor(options=options)
        yield unpacker.decompress(body, _STEP_BYTES)
        while not unpacker.eof:
            if unpacker.needs_input:
                raise EOFError
            yield unpacker.decompress(b"", _STEP_BYTES)
        body = unpacker.unused_data


_CODINGS: dict[str, Callable[[bytes], Pieces]] = {
    "gzip": _gzip,
    "x-gzip": _gzip,
    "deflate": _deflate,
    "br": _br,
    "zstd": _zstd,
}
