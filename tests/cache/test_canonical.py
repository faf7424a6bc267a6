"""Forms under which the same question in other writing is equal, and different questions are not."""

from __future__ import annotations

import pytest

from cache.acceptance import canonical, is_chinese
from tests.cache import near_pairs_zh, pairs_en, pairs_zh


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
    ("one", "other"),
    [
        pair
        for table in (pairs_zh, near_pairs_zh)
        for kind, pairs in table.DIFFERENT.items()
        if kind
        != "symbol"  # blanks and stops are no part of a form; the veto looks at them where they matter
        for pair in pairs
        if pair[0][0] != "x"
    ]
    + [
        # what no veto knows: names and things
        ("怎么去故宫", "怎么去长城"),
        ("阿司匹林能吃吗", "布洛芬能吃吗"),
        ("苹果怎么种", "香蕉怎么种"),
        ("美团怎么退款", "饿了么怎么退款"),
        ("清华大学在哪", "北京大学在哪"),
        ("牛奶能喝吗", "豆浆能喝吗"),
        ("感冒怎么治", "发烧怎么治"),
        ("先吃饭还是先洗澡", "先洗澡还是先吃饭"),
    ],
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
