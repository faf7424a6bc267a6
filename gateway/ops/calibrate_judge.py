"""Measures a judge on answers that somebody labelled: how often it calls wrong ones right, and right ones wrong.

The judge is given; whether it sits in this process or asks a running Echogate is the caller's business.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cache import Exchange, JudgeRates, correction_of

from .labelled import BadFile, records

_FIELDS = ("question", "fresh_answer", "stored_question", "stored_answer", "label")

Ask = Callable[[Exchange], Awaitable[bool | None]]


@dataclass(frozen=True, slots=True)
class JudgeReport:
    """`unjudged`: pairs of which it could not tell; they count for nothing."""

    judge: str
    rates: JudgeRates
    unjudged: int

    @property
    def is_usable(self) -> bool:
        return correction_of(self.rates).is_usable

    def record(self) -> dict[str, Any]:
        rates = self.rates
        return {
            "judge": self.judge,
            "wrong": rates.wrong,
            "false_agrees": rates.false_agrees,
            "false_agree": _share(rates.false_agrees, rates.wrong),
            "false_agree_low": rates.false_agree.low,
            "false_agree_high": rates.false_agree.high,
            "right": rates.right,
            "false_disagrees": rates.false_disagrees,
            "false_disagree": _share(rates.false_disagrees, rates.right),
            "false_disagree_low": rates.false_disagree.low,
            "false_disagree_high": rates.false_disagree.high,
            "unjudged": self.unjudged,
            "is_usable": self.is_usable,
        }


def read_answers(path: Path) -> list[tuple[Exchange, bool]]:
    """Of `{"question": …, "fresh_answer": …, "stored_question": …, "stored_answer": …, "label": …}` lines; the label
    says whether the stored answer is right for the question. Raises `BadFile`."""
    found = []
    for number, record in records(path, _FIELDS):
        if not isinstance(record["label"], bool):
            raise BadFile(
                f"{path}, line {number}: label must be true (the stored answer is right) or false (it is not)"
            )
        found.append((Exchange(*(str(record[name]) for name in _FIELDS[:-1])), record["label"]))
    return found


async def measure(
    judge: str, ask: Ask, answers: list[tuple[Exchange, bool]], *, tell: Callable[[str], None]
) -> JudgeReport:
    counts = {(label, said): 0 for label in (True, False) for said in (True, False, None)}
    for number, (exchange, label) in enumerate(answers, 1):
        counts[label, await ask(exchange)] += 1
        if number % 100 == 0:
            tell(f"judged {number} of {len(answers)}")
    return JudgeReport(
        judge,
        JudgeRates(
            wrong=counts[False, True] + counts[False, False],
            false_agrees=counts[False, True],
            right=counts[True, True] + counts[True, False],
            false_disagrees=counts[True, False],
        ),
        unjudged=counts[True, None] + counts[False, None],
    )


def judge_text(report: JudgeReport) -> Iterator[str]:
    found = report.record()
    yield f"judge {report.judge}"
    for name, of, told in (
        ("false_agree", "wrong", "wrong answers that it calls right"),
        ("false_disagree", "right", "right answers that it calls wrong"),
    ):
        share = "-" if found[name] is None else f"{100 * found[name]:.1f}%"
        interval = f"[{100 * found[f'{name}_low']:.1f}, {100 * found[f'{name}_high']:.1f}]"
        yield f"  {told}: {found[f'{name}s']} of {found[of]}, {share}, 90% interval {interval}"
    if report.unjudged:
        yield f"  could not tell: {report.unjudged}"
    if not report.is_usable:
        yield "  not usable: what it says depends too little on the answers, or too few of them are labelled"


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None
