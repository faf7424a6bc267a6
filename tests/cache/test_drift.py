"""An alarm when the questions of a namespace change, and none while they only vary."""

from __future__ import annotations

import math
import random

import pytest

from cache.acceptance import read
from cache.evidence.drift import WINDOW, Drift, Lengths, divergence, length


def text(tokens: int, *, unknown: int = 0) -> Lengths:
    return Lengths(1, tokens, math.log(tokens), unknown)


def after(
    drift: Drift, *, shape: float, scale: float, windows: int = 1, unknown: int = 0, seed: int = 0
) -> Drift:
    draw = random.Random(seed)
    for at in range(windows * WINDOW):
        tokens = 1 + round(draw.gammavariate(shape, scale))
        drift = drift.with_texts(text(tokens, unknown=unknown), at_s=float(at))
    return drift


def of(tokens: list[int]) -> Lengths:
    lengths = Lengths()
    for count in tokens:
        lengths += text(count)
    return lengths


def test_a_steady_stream_raises_no_alarm() -> None:
    assert after(Drift(), shape=4, scale=3, windows=20).alarms == 0


def test_questions_twice_as_long_raise_one_alarm_and_are_then_usual() -> None:
    before = after(Drift(), shape=4, scale=3, windows=3)
    assert after(before, shape=4, scale=6, windows=6, seed=1).alarms == 1


def test_a_window_is_judged_when_it_is_full() -> None:
    before = after(Drift(), shape=4, scale=3, windows=2)
    drift = before
    for _ in range(WINDOW - 1):
        drift = drift.with_texts(text(80), at_s=1.0)
    assert drift.alarms == 0
    assert drift.with_texts(text(80), at_s=1.0).alarms == 1


def test_an_alarm_says_since_when_the_questions_were_others() -> None:
    drift = after(Drift(), shape=4, scale=3, windows=2)
    for at in range(WINDOW):
        drift = drift.with_texts(text(80), at_s=1_000.0 + at)
    assert drift.changed_s == 1_000.0


def test_what_several_workers_read_meanwhile_may_fill_more_than_a_window() -> None:
    before = after(Drift(), shape=4, scale=3, windows=1)
    many = Lengths()
    for _ in range(3 * WINDOW):
        many += text(80)
    assert before.with_texts(many, at_s=1.0).alarms == 1


def test_unknown_tokens_raise_an_alarm() -> None:
    before = after(Drift(), shape=4, scale=3, windows=3)
    assert after(before, shape=4, scale=3, unknown=1).alarms == 1


def test_equal_windows_do_not_diverge_and_others_do() -> None:
    short, long = of([5, 8, 9, 12, 7]), of([50, 80, 90, 120, 70])
    assert divergence(short, short) < 1e-9
    assert divergence(long, short) > 1


def test_windows_are_merged_by_adding() -> None:
    assert of([5, 8]) + of([9]) == of([5, 8, 9])


def test_texts_of_one_length_can_be_compared() -> None:
    assert divergence(of([7] * 9), of([7] * 9)) == 0


@pytest.mark.parametrize(
    ("asked", "tokens", "unknown"),
    [
        ("How do I reset my password?", 6, 0),
        ("How do I reset my password? 🔑", 7, 1),
        ("Как мне сбросить пароль?", None, None),
        ("如何重置我的密码", None, 0),
        ("", 1, 0),
    ],
)
def test_words_and_signs_are_tokens_and_signs_are_unknown(
    asked: str, tokens: int | None, unknown: int | None
) -> None:
    found = length(read(asked))
    assert tokens in (None, found.tokens)
    assert unknown in (None, found.unknown)
    if unknown is None:
        assert found.unknown_share > 0.5
