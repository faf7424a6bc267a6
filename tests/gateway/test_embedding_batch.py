"""A batch of texts, and what a reply to it holds."""

from __future__ import annotations

import contextlib
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import Json
from gateway.data.embedding_batch import Batch, as_reply, in_order, read_batch, read_reply, shares, written
from gateway.errors import InvalidRequest


@given(st.integers(0, 10_000), st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=30))
def test_shares_add_up(tokens: int, texts: list[Json]) -> None:
    parted = shares(tokens, texts)
    assert sum(parted) == tokens
    assert min(parted) >= 0


@given(st.binary(max_size=200))
def test_no_reply_raises_but_where_it_is_no_object(body: bytes) -> None:
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        assert read_reply(body) is None


def test_vectors_go_by_their_place_and_a_place_is_taken_once() -> None:
    assert in_order([(1, b"b"), (0, b"a")], count=2) == [b"a", b"b"]
    for wrong in ([(0, b"a")], [(0, b"a"), (0, b"b")], [(0, b"a"), (2, b"b")], [(0, b"a"), (-1, b"b")]):
        assert in_order(wrong, count=2) is None


@given(st.lists(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1), min_size=1))
def test_a_vector_survives_each_form(vectors: list[list[float]]) -> None:
    for asks_base64 in (True, False):
        batch = Batch(tuple("x" * len(vectors)), asks_base64)
        kept = [struct.pack(f"<{len(vector)}f", *vector) for vector in vectors]
        reply = read_reply(as_reply(list(written(kept, batch)), model="m", tokens=3, members={}))
        assert reply is not None
        assert in_order(list(reply.vectors()), count=len(vectors)) == kept
        assert reply.tokens == 3


def test_one_text_is_a_batch_of_one() -> None:
    assert read_batch({"input": "a"}).inputs == read_batch({"input": ["a"]}).inputs
    with pytest.raises(InvalidRequest):
        read_batch({})
