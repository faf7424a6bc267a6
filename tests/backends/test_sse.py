"""The event parser and encoder: what a model server may send, in whatever pieces it arrives."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backends.sse import Event, EventTooLarge, Parser, encode


def parse(*chunks: bytes, **options: int) -> list[Event]:
    parser = Parser(**options)
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def test_frames_of_a_model_server() -> None:
    assert parse(b'data: {"a":1}\n\ndata: [DONE]\n\n') == [Event(b'{"a":1}'), Event(b"[DONE]")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end(end: bytes) -> None:
    assert parse(end.join([b"data: a", b"", b"data: b", b"", b""])) == [Event(b"a"), Event(b"b")]


def test_cr_and_lf_in_different_chunks_are_one_line_end() -> None:
    assert parse(b"data: a\r", b"\ndata: b\r", b"\n\r", b"\n") == [Event(b"a\nb")]


def test_a_lone_cr_at_the_end_of_a_chunk_ends_the_event_at_once() -> None:
    assert Parser().feed(b"data: a\r\n\r") == [Event(b"a")]


def test_lines_of_one_event_are_joined() -> None:
    assert parse(b"data: a\ndata:\ndata: b\n\n") == [Event(b"a\n\nb")]


def test_comments_are_dropped() -> None:
    assert parse(b": still working\n\n: again\ndata: a\n: and again\n\n:\n\n") == [Event(b"a")]


def test_event_names_are_kept_and_ids_ignored() -> None:
    assert parse(b"id: 7\nevent: response.completed\ndata: {}\nretry: 9\n\n") == [
        Event(b"{}", "response.completed")
    ]


def test_only_one_space_after_the_colon_is_syntax() -> None:
    assert parse(b"data:a\n\ndata:  b\n\n") == [Event(b"a"), Event(b" b")]


@pytest.mark.parametrize(
    "silent", [b"data\n\n", b"data:\n\n", b"data: \n\n", b"event: ping\n\n", b"\n\n\n\n"]
)
def test_events_without_data_are_dropped(silent: bytes) -> None:
    assert parse(silent + b"data: a\n\n" + silent) == [Event(b"a")]


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse(b"\xef", b"\xbb\xbfdata: a\n\n") == [Event(b"a")]


def test_the_last_event_needs_no_blank_line() -> None:
    assert parse(b"data: a\n\ndata: b") == [Event(b"a"), Event(b"b")]


def test_a_split_character_is_whole_again() -> None:
    frame = "data: 日本\n\n".encode()
    assert parse(frame[:8], frame[8:10], frame[10:]) == [Event("日本".encode())]


@pytest.mark.parametrize(
    "chunks", [[b"data: " + b"x" * 100], [b"data: ", b"x" * 100, b"\n\n"], [b"data: " + b"x" * 100 + b"\n\n"]]
)
def test_an_event_beyond_the_limit_is_refused(chunks: list[bytes]) -> None:
    with pytest.raises(EventTooLarge):
        parse(*chunks, max_event_bytes=64)


def test_many_events_may_exceed_the_limit_together() -> None:
    assert len(parse(b"data: abc\n\n" * 100, max_event_bytes=64)) == 100


SYNTAX = [b"data: ", b"data:", b"data", b"event: e", b"id: 1", b": c", b":", b" ", b"\xef\xbb\xbf"]
LINE_ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n"]
PIECES = st.sampled_from([*SYNTAX, *LINE_ENDS, b'{"a":"b"}', b"[DONE]", "é日😀".encode()])


@given(stream=st.lists(PIECES, max_size=40).map(b"".join), cuts=st.lists(st.integers(0, 400), max_size=12))
def test_any_chunking_gives_the_same_events(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]
    assert parse(*chunks) == parse(stream)


@given(stream=st.lists(PIECES, max_size=30).map(b"".join))
def test_byte_by_byte_gives_the_same_events(stream: bytes) -> None:
    assert parse(*(stream[i : i + 1] for i in range(len(stream)))) == parse(stream)


@given(data=st.binary(min_size=1).filter(lambda data: data.strip(b"\r\n")))
def test_what_is_encoded_is_parsed_back(data: bytes) -> None:
    expected = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert parse(encode(data)) == [Event(expected)]
