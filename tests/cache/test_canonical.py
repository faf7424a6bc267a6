"""Forms under which the same question in other writing is equal, and different questions are not."""

from __future__ import annotations

import pytest

from cache.acceptance import canonical, is_chinese
from tests.cache import pairs_en, pairs_zh


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("如何学好英语", "怎样学好英语呢？"),
        ("为啥天是蓝的", "为什么天是蓝的"),
        ("能不能退货", "可以退货吗"),
        ("请问邮局在哪儿", "邮局在哪里"),
        ("怎样才能挣钱", "如何才能赚钱"),
        ("我跟你去看电影", "我和你去看影片"),
        ("是不是感冒了", "是否感冒"),
    ],
)
def test_chinese_rewordings_have_one_canonical_form(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [pair for pairs in pairs_zh.DIFFERENT.values() for pair in pairs if pair[0][0] != "x"]
)
def test_different_chinese_questions_have_different_canonical_forms(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("one", "other"), [pair for kind in ("negation", "number", "name") for pair in pairs_en.DIFFERENT[kind]]
)
def test_different_english_questions_have_different_canonical_forms(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


@pytest.mark.parametrize(
    ("text", "expected"), [("苹果手机怎么截图", True), ("What does 上 mean?", False), ("", False)]
)
def test_a_text_is_chinese_if_most_of_its_letters_are(text: str, expected: bool) -> None:
    assert is_chinese(text) is expected
