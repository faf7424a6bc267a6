"""An alarm when the questions of a namespace change, and none while they only vary."""

from __future__ import annotations

import random

from cache.evidence.drift import WINDOW, Drift, Lengths, divergence


def after(
    drift: Drift, *, shape: float, scale: float, windows: int = 1, unknown: int = 0, seed: int = 0
) -> Drift:
    draw = random.Random(seed)
    for _ in range(windows * WINDOW):
        drift = drift.with_text(1 + round(draw.gammavariate(shape, scale)), unknown=unknown)
    return drift


def of(tokens: list[int]) -> Lengths:
    lengths = Lengths()
    for count in tokens:
        lengths = lengths.with_text(count)
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
        drift = drift.with_text(80)
    assert drift.alarms == 0
    assert drift.with_text(80).alarms == 1


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
