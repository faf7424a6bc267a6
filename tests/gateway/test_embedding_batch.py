"""A batch of texts, and what a reply to it holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.body import Json
from gateway.data.embedding_batch import read_batch, read_reply, shares
from gateway.errors import InvalidRequest


@given(st.integers(0, 10_000), st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=30))
def test_shares_add_up(tokens: int, texts: list[Json]) -> None:
    parted = shares(tokens, texts)
    assert sum(parted) == tokens
    assert min(parted) >= 0


@given(st.binary(max_size=200))
def test_no_reply_raises(body: bytes) -> None:
    assert read_reply(body, count=1) is None


def test_one_text_is_a_batch_of_one() -> None:
    assert read_batch({"input": "a"}).inputs == read_batch({"input": ["a"]}).inputs
    with pytest.raises(InvalidRequest):
        read_batch({})
