"""The targets of `make fuzz`, for a moment: whatever comes from outside raises only the errors meant for it."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, body, encodings, errors, sse

_LINES = (
    b"data: ",
    b"data:",
    b"data",
    b"event: e",
    b"event:",
    b"id: 1",
    b"retry: 1",
    b": c",
    b":",
    b" ",
    b"x: y",
)
_ENDS = (b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n")
_SSE = st.sampled_from((*_LINES, *_ENDS, b"\xef\xbb\xbf", b'{"a":"b"}', b"[DONE]", "é日😀".encode(), b"\0"))
_MARKS = (b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b" ", b"\xff")
_VALUES = (b'"a"', b"1", b"-", b"1e9", b"NaN", b"null", b"true", b'"\\ud83d"')
_JSON = st.sampled_from((*_MARKS, *_VALUES, b'"error"', b'"message"', b'"loc"', b'"detail"'))
_ANY = st.binary(max_size=200)


@given(cuts=st.binary(max_size=15), stream=st.lists(_SSE, max_size=40).map(b"".join) | _ANY)
def test_events_are_those_of_the_standard_however_the_stream_is_cut(cuts: bytes, stream: bytes) -> None:
    sse(bytes([len(cuts)]) + cuts + stream)


@given(st.lists(_JSON, max_size=30).map(b"".join) | _ANY)
def test_a_body_is_read_as_json_reads_it_or_refused(data: bytes) -> None:
    body(data)
    body(b'{"a":' + data + b"}")


@given(st.lists(_JSON, max_size=30).map(b"".join) | _ANY)
def test_whatever_a_server_says_becomes_an_error(data: bytes) -> None:
    errors(b"\x00" + data)
    errors(b"\x90" + json.dumps({"error": {"message": data.decode("latin-1")}}).encode())


@given(_ANY)
def test_packed_bytes_are_unpacked_within_bounds_or_refused(data: bytes) -> None:
    encodings(data)
    encodings(gzip.compress(data)[:-3] + data)


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_takes_nothing_at_all(name: str) -> None:
    TARGETS[name](b"")
