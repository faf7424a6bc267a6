"""Pairs that must not share an answer, on the real embedding model: as near as 0.90, none of any kind is served."""

from __future__ import annotations

import functools

import pytest

from cache import OnnxEmbedder, Policy, UnfitText, open_embedder, read
from tests.cache import (
    near_pairs_en_counts,
    near_pairs_en_reports,
    near_pairs_en_words,
    near_pairs_zh,
    pairs_en,
    pairs_zh,
)
from tests.cache.prepared import prepared_model

TABLES = (pairs_en, pairs_zh, near_pairs_en_counts, near_pairs_en_reports, near_pairs_en_words, near_pairs_zh)
KINDS = sorted({kind for table in TABLES for kind in table.DIFFERENT})
NEAR = 0.90


@functools.cache
def embedder() -> OnnxEmbedder:
    opened = open_embedder("onnx", model=str(prepared_model()))
    assert isinstance(opened, OnnxEmbedder)
    return opened


def cosine(one: str, other: str) -> float | None:
    """None where the model cannot read them."""
    try:
        return float(embedder().embed(one) @ embedder().embed(other))
    except UnfitText:
        return None


def pairs_of(kind: str) -> list[tuple[str, str]]:
    return [pair for table in TABLES for pair in table.DIFFERENT.get(kind, [])]


@pytest.mark.parametrize("kind", KINDS)
def test_none_is_served_at_a_cosine_of_90(kind: str) -> None:
    policy = Policy("guarded", NEAR)
    served = [
        (one, other)
        for one, other in pairs_of(kind)
        if (near := cosine(one, other)) is not None and policy.judge(read(one), other, near).is_accepted
    ]
    assert served == []


def test_many_of_them_are_as_near_as_that() -> None:
    """Else the test above shows nothing."""
    near = [
        kind
        for kind in ("number", "date", "negation", "contrast", "name", "order", "language")
        for one, other in pairs_of(kind)
        if (cosine(one, other) or 0.0) >= NEAR
    ]
    assert len(near) >= 80
    assert len(set(near)) == 7
