"""What a calibration finds: for each policy and threshold or budget how many hits, and how many of them wrong. Pure.

E is wrong ones among all requests, F wrong ones among hits, with its 90% Wilson interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

BUDGETS = (0.01, 0.02, 0.05, 0.10)


@dataclass(frozen=True, slots=True)
class Point:
    """One policy at one threshold, or (`learned`) budget. `by_kind` counts wrong hits by the veto that would have
    stopped them; `judge_calls` are the verdicts that it rests on, 0 where labels were at hand."""

    policy: str
    threshold: float
    budget: float | None
    requests: int
    hits: int
    wrong: int
    first_serve: int | None
    judge_calls: int
    f_low: float
    f_high: float
    by_kind: dict[str, int] = field(default_factory=dict)

    @property
    def hit_rate(self) -> float:
        return self.hits / self.requests if self.requests else 0.0

    @property
    def f(self) -> float:
        return self.wrong / self.hits if self.hits else 0.0

    @property
    def e(self) -> float:
        return self.wrong / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class Curve:
    points: Sequence[Point]

    @property
    def recommended(self) -> dict[float, float | None]:
        """By budget: the least threshold of `guarded` at which the upper end of the interval holds it, and above which
        none is shown to break it."""
        return {budget: _recommended(self.points, budget) for budget in BUDGETS}

    def record(self) -> dict[str, Any]:
        points = [
            asdict(point) | {"F": point.f, "E": point.e, "hit_rate": point.hit_rate} for point in self.points
        ]
        return {
            "points": points,
            "recommended": {f"{budget:g}": at for budget, at in self.recommended.items()},
        }

    @classmethod
    def of(cls, record: dict[str, Any]) -> Curve:
        """From its own record."""
        derived = ("F", "E", "hit_rate")
        return cls(
            [
                Point(**{name: value for name, value in each.items() if name not in derived})
                for each in record["points"]
            ]
        )


def _recommended(points: Sequence[Point], budget: float) -> float | None:
    least = None
    for point in sorted(points, key=lambda point: -point.threshold):
        if point.policy != "guarded" or not point.hits:
            continue
        if point.f_low > budget:
            break  # what lies below serves this too: that it looks better is luck
        if point.f_high <= budget:
            least = point.threshold
    return least
