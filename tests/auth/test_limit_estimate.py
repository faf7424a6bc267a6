"""What is reserved before anything has been counted, and what tokens cost."""

from __future__ import annotations

import pytest

from auth import Prices, UsualOutputs, estimate


@pytest.mark.parametrize(
    ("max_tokens", "usual", "model_limit", "output"),
    [
        (None, None, None, 512),  # nothing known: a guess
        (100, None, None, 100),
        (4_096, None, None, 512),
        (None, 2_000, None, 2_000),
        (100, 2_000, 300, 100),
        (4_096, 200, 300, 200),
        (4_096, 2_000, 300, 300),
        (0, None, None, 0),
        (-5, None, None, 0),
    ],
)
def test_output_is_the_least_of_what_bounds_it(
    max_tokens: int | None, usual: int | None, model_limit: int | None, output: int
) -> None:
    found = estimate(0, max_tokens=max_tokens, usual_output=usual, model_limit=model_limit)

    assert found == (0, output)


@pytest.mark.parametrize(("prompt_bytes", "tokens"), [(0, 0), (1, 1), (3, 1), (4, 2), (3_000, 1_000)])
def test_input_is_a_third_of_its_bytes(prompt_bytes: int, tokens: int) -> None:
    found = estimate(prompt_bytes, max_tokens=10, usual_output=None, model_limit=None)

    assert found.input_tokens == tokens
    assert found.tokens == tokens + 10


def test_usual_output_is_unknown_at_first() -> None:
    outputs = UsualOutputs()
    for _ in range(15):
        outputs.note("k", 5)

    assert outputs.of("k") is None
    assert outputs.of("never seen") is None


def test_usual_output_is_what_nineteen_of_twenty_stay_under() -> None:
    outputs = UsualOutputs()
    for number in range(1, 65):
        outputs.note("k", number)

    assert outputs.of("k") == 61


def test_usual_output_follows_the_latest_answers() -> None:
    outputs = UsualOutputs()
    for tokens in [10] * 100 + [300] * 64:
        outputs.note("k", tokens)

    assert outputs.of("k") == 300


def test_usual_outputs_are_bounded() -> None:
    outputs = UsualOutputs(capacity=2)
    for number in range(10):
        outputs.note(str(number), 5)

    assert len(outputs) == 2


def test_prices_are_per_million_tokens() -> None:
    prices = Prices({"m1": (0.5, 1.5)})

    assert prices.cost("m1", input_tokens=2_000_000, output_tokens=1_000) == pytest.approx(1.0015)
    assert prices.cost("unlisted", input_tokens=2_000_000, output_tokens=1_000) == 0
