"""Compressed bodies in, compressed replies out: what is chosen, what is unpacked, and what never is."""

from __future__ import annotations

import gzip
import random
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from functools import partial

import brotli
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.data.compression import StreamGzip, choose, compressed
from gateway.data.decompression import decompressed
from gateway.errors import ApiError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

Pack = Callable[[bytes], bytes]
PACKERS: dict[str, Pack] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": partial(brotli.compress, quality=5),
    "zstd": zstd.compress,
}
MIB = 1 << 20
every_coding = pytest.mark.parametrize("coding", PACKERS)


def bare_deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


async def code_of(body: bytes, coding: str) -> str | None:
    """Of the refusal, if it is one."""
    try:
        await decompressed(body, coding, limit_bytes=MIB)
    except ApiError as error:
        return error.code
    return None


class TestUnpacking:
    @every_coding
    @given(data=st.binary(max_size=3000), times=st.integers(0, 80))
    async def test_what_was_packed_is_unpacked(self, coding: str, data: bytes, times: int) -> None:
        data *= times
        assert await decompressed(PACKERS[coding](data), coding, limit_bytes=MIB) == data

    async def test_bare_deflate_is_taken_too_as_some_clients_send_it(self) -> None:
        data = random.randbytes(100_000)
        assert await decompressed(bare_deflate(data), "deflate", limit_bytes=MIB) == data

    async def test_zstd_may_come_in_several_frames(self) -> None:
        assert await decompressed(zstd.compress(b"a") + zstd.compress(b"b"), "zstd", limit_bytes=10) == b"ab"

    @every_coding
    async def test_exactly_the_limit_is_taken_and_one_byte_more_is_not(self, coding: str) -> None:
        data = random.randbytes(1000) * 200
        assert await decompressed(PACKERS[coding](data), coding, limit_bytes=200_000) == data
        with pytest.raises(ApiError) as caught:
            await decompressed(PACKERS[coding](data + b"x"), coding, limit_bytes=200_000)
        assert (caught.value.status, caught.value.code) == (413, "request_too_large")

    @every_coding
    async def test_a_bomb_is_never_unpacked_beyond_the_bound(self, coding: str) -> None:
        bomb = PACKERS[coding](b"\0" * (64 * MIB))
        tracemalloc.start()
        with pytest.raises(ApiError) as caught:
            await decompressed(bomb, coding, limit_bytes=4 * MIB)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert caught.value.status == 413
        assert peak < 16 * MIB

    async def test_a_small_bomb_is_told_by_its_ratio_before_the_limit_is_reached(self) -> None:
        with pytest.raises(ApiError, match="250 times its size"):
            await decompressed(brotli.compress(b"\0" * (8 * MIB)), "br", limit_bytes=64 * MIB)

    @every_coding
    @given(junk=st.binary(min_size=1, max_size=200), cut=st.integers(0, 60))
    async def test_what_is_no_such_thing_is_a_400_and_nothing_else(
        self, coding: str, junk: bytes, cut: int
    ) -> None:
        whole = PACKERS[coding](b"some text, " * 50)
        for broken in (junk, whole[: min(cut, len(whole) - 1)]):
            assert await code_of(broken, coding) in (None, "invalid_encoding")
        assert await code_of(whole + b"junk" + junk, coding) == "invalid_encoding"

    @every_coding
    @pytest.mark.parametrize("damage", [lambda whole: whole[:-5], lambda whole: whole[:20], lambda _: b""])
    async def test_half_a_body_is_not_taken_for_a_whole_one(self, coding: str, damage: Pack) -> None:
        if coding == "zstd" and damage(b"x") == b"":
            return  # no frame at all is a valid, empty one
        whole = PACKERS[coding](random.randbytes(5000))
        with pytest.raises(ApiError) as caught:
            await decompressed(damage(whole), coding, limit_bytes=MIB)
        assert (caught.value.status, caught.value.code) == (400, "invalid_encoding")

    @pytest.mark.parametrize("coding", ["gzip, br", "compress", "", "aes128gcm", "zst"])
    async def test_other_codings_and_several_at_once_are_refused_by_name(self, coding: str) -> None:
        with pytest.raises(ApiError, match="expected one of gzip") as caught:
            await decompressed(b"{}", coding, limit_bytes=10)
        assert (caught.value.status, caught.value.code) == (415, "unsupported_encoding")


@pytest.mark.parametrize(
    ("accepts", "coding"),
    [
        ("gzip, deflate", "gzip"),
        ("gzip, deflate, br, zstd", "zstd"),
        ("gzip, deflate, br", "br"),
        ("br;q=0.5, gzip;q=0.8", "gzip"),
        ("zstd;q=0, br;q=0, gzip", "gzip"),
        ("x-gzip", "gzip"),
        ("*", "gzip"),
        ("*;q=0", None),
        ("gzip;q=0", None),
        ("gzip;q=0.2, identity;q=0.9", None),
        ("GZIP ; q=1.0", "gzip"),
        ("gzip;q=nonsense", None),
        ("gzip;q=nan", None),
        ("identity", None),
        ("deflate", None),
        ("", None),
        (",;=,q", None),
    ],
)
def test_the_client_chooses(accepts: str, coding: str | None) -> None:
    assert choose(accepts.encode()) == coding


@given(st.binary(max_size=300))
def test_no_header_breaks_the_choice(accepts: bytes) -> None:
    assert choose(accepts) in (None, "zstd", "br", "gzip")


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
@pytest.mark.parametrize("size", [2000, 500_000])
async def test_replies_are_read_back_as_they_were(coding: str, size: int) -> None:
    data = random.randbytes(size // 2) + b"a" * (size // 2)
    packed = await compressed(data, coding)
    unpackers: dict[str, Pack] = {"gzip": gzip.decompress, "br": brotli.decompress, "zstd": zstd.decompress}
    assert unpackers[coding](packed) == data
    assert len(packed) < len(data)


def test_each_event_of_a_compressed_stream_can_be_read_when_it_comes() -> None:
    packer, unpacker = StreamGzip(), zlib.decompressobj(31)
    for number in range(50):
        event = b"data: %d\n\n" % number
        assert unpacker.decompress(packer.feed(event)) == event
    assert unpacker.decompress(packer.end(b"data: [DONE]\n\n")) == b"data: [DONE]\n\n"
    assert unpacker.eof
