"""Pairs that must not share an answer, and pairs that may, for each veto and in both languages."""

from __future__ import annotations

import pytest

from cache.acceptance import first_veto, read
from cache.acceptance.numerals import in_digits
from cache.acceptance.quantities import quantities
from cache.acceptance.vetoes import VETOES, all_vetoes
from tests.cache import (
    near_pairs_en_counts,
    near_pairs_en_reports,
    near_pairs_en_words,
    near_pairs_zh,
    pairs_en,
    pairs_zh,
)

Pair = tuple[str, str]
LANGUAGES = (pairs_en, pairs_zh)
DIFFERENT = [
    (name, *pair) for language in LANGUAGES for name, pairs in language.DIFFERENT.items() for pair in pairs
]
NEAR = [
    (kind, *pair)
    for table in (near_pairs_en_counts, near_pairs_en_reports, near_pairs_en_words, near_pairs_zh)
    for kind, pairs in table.DIFFERENT.items()
    for pair in pairs
]
SAME = [pair for table in (*LANGUAGES, near_pairs_en_reports) for pair in table.SAME]


@pytest.mark.parametrize(("name", "new", "stored"), DIFFERENT)
def test_different_questions_are_kept_apart_by_the_named_veto(name: str, new: str, stored: str) -> None:
    assert all_vetoes(read(new), read(stored))[name]
    assert all_vetoes(read(stored), read(new))[name]


@pytest.mark.parametrize(("kind", "new", "stored"), NEAR)
def test_questions_that_differ_in_little_are_kept_apart(kind: str, new: str, stored: str) -> None:
    assert first_veto(read(new), read(stored)) is not None, kind
    assert first_veto(read(stored), read(new)) is not None, kind


@pytest.mark.parametrize(("new", "stored"), SAME)
def test_the_same_question_in_other_words_is_not_vetoed(new: str, stored: str) -> None:
    assert first_veto(read(new), read(stored)) is None
    assert first_veto(read(stored), read(new)) is None


def test_there_are_enough_pairs_of_each_language_and_kind() -> None:
    for pairs in LANGUAGES:
        assert sum(map(len, pairs.DIFFERENT.values())) >= 40
        assert len(pairs.SAME) >= 60
    assert {name for name, _, _ in DIFFERENT} == set(VETOES)


@pytest.mark.parametrize("text", ["", "?", "\ud83d", "a" * 8000, "1" * 8000, "not " * 2000, "é́́́"])
def test_any_text_can_be_read_and_equals_itself(text: str) -> None:
    assert first_veto(read(text), read(text)) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("pay $1,250.50 now", (("1250.50", "$"),)),
        ("5kg or 5 kilos", (("5", "kg"), ("5", "kg"))),
        ("twelve men, one week", (("12", ""), ("1", "week"))),
        ("which one of these", ()),
        ("at -5 °c", (("-5", "c"),)),
        ("2020-2021", (("2020-2021", ""),)),
        ("room b12", (("b12", ""),)),
        ("50k or 1.5 million", (("50000", ""), ("1500000", ""))),
        ("one hundred and twenty-five euros", (("125", "€"),)),
        ("三十五公里", (("35", "km"),)),
        ("一万两千块钱", (("12000", "元"),)),
        ("百分之二十", (("20", "%"),)),
        ("一起看一下", ()),
    ],
)
def test_quantities_are_numbers_with_their_units(text: str, expected: object) -> None:
    assert quantities(in_digits(text)) == expected
