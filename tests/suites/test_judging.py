"""What a suite's results come to: whatever works at the server has to work, be stored, and look the same again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from .suites import PHASES, SUITES, Line, judged

SUITE = SUITES[0]


def line(phase: str, **facts: Any) -> Line:
    told = {"direct": None, "cold": "MISS", "warm": "HIT-EXACT"}[phase]
    call = {"path": "/v1/chat/completions", "status": 200, "x-cache": told, "x-cache-reason": None}
    return replace(Line(phase, "chat", "passed", "", "hello", [call]), **facts)


def judgement(**changed: dict[str, Any]) -> tuple[list[tuple[str, str]], list[str]]:
    rows, faults = judged(SUITE, "one", [line(phase, **changed.get(phase, {})) for phase in PHASES])
    return [(row.cold, row.warm) for row in rows], faults


def test_a_feature_that_works_everywhere_is_listed_without_a_fault() -> None:
    assert judgement() == ([("yes", "hit")], [])


@pytest.mark.parametrize(
    ("phase", "facts", "cells"),
    [
        ("cold", {"outcome": "failed", "reason": "no"}, ("no", "hit")),
        ("warm", {"outcome": "failed", "reason": "no"}, ("yes", "no")),
        ("warm", {"said": "goodbye"}, ("yes", "hit")),
        ("warm", {"calls": line("cold").calls}, ("yes", "yes")),
        ("cold", {"calls": line("warm").calls}, ("yes", "hit")),
    ],
)
def test_what_the_gateway_does_otherwise_is_a_fault(
    phase: str, facts: dict[str, Any], cells: tuple[str, str]
) -> None:
    rows, faults = judgement(**{phase: facts})
    assert rows == [cells]
    assert len(faults) == 1


@pytest.mark.parametrize("outcome", ["failed", "skipped"])
def test_what_the_server_itself_cannot_do_is_no_fault(outcome: str) -> None:
    assert judgement(direct={"outcome": outcome, "reason": "too small"}) == ([("–", "–")], [])
