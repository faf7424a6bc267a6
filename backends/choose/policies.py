"""The choice of one member, by name of policy: pure functions over those that may be asked."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..model import PolicyName
from .affinity import ranked

# A prefix's own member is left when it has more than this much of the mean load.
_PREFIX_BOUND = 1.25
_GOLDEN = 0.6180339887498949


@dataclass(slots=True)
class Field:
    """The members to choose from, by position.

    `weights` are as configured, `measured` the same times what was observed of pace, health and warmth.
    `load(position)` is asked of those only that are compared. `turn` counts the choices before.
    """

    names: Sequence[str]
    weights: Sequence[float]
    measured: Sequence[float]
    load: Callable[[int], float]
    rng: random.Random
    turn: int = 0
    prefix: str | None = None


class Pick(NamedTuple):
    """The position chosen, and the scores of those compared: load over weight, lower is better."""

    at: int
    scores: Sequence[tuple[int, float]] = ()


Policy = Callable[[Field], Pick]


def least_load(field: Field) -> Pick:
    """The less loaded of two drawn by measured weight.

    Equal scores go to the first drawn, so that idle members share by weight. Two random choices rather than the least
    of all, so that workers which do not see each other's requests do not all run to the same member.
    """
    return _less_loaded(field, _draw_two(field.measured, field.rng), field.measured)


def two_choices(field: Field) -> Pick:
    """The classic: two drawn evenly, configured weights only."""
    evenly = [1.0] * len(field.names)
    return _less_loaded(field, _draw_two(evenly, field.rng), field.weights)


def by_turns(field: Field) -> Pick:
    return Pick(field.turn % len(field.names))


def by_weight(field: Field) -> Pick:
    """Measured weights alone, as evenly as possible: multiples of the golden ratio visit every stretch in turn."""
    return Pick(_at_point(field.measured, field.turn * _GOLDEN % 1.0))


def at_random(field: Field) -> Pick:
    return Pick(_at_point(field.weights, field.rng.random()))


def by_prefix(field: Field) -> Pick:
    """The prefix's own member unless it has too much to do, then its next; without a prefix the least loaded."""
    if field.prefix is None:
        return least_load(field)
    loads = [field.load(at) for at in range(len(field.names))]
    mean = sum(loads) / sum(field.measured)
    for at in ranked(field.prefix, field.names):
        # The request itself counts, so that the first one of an idle pool finds room.
        if loads[at] + 1 <= _PREFIX_BOUND * (mean * field.measured[at] + 1):
            return Pick(at, [(at, loads[at] / field.measured[at])])
    return least_load(field)


POLICIES: Mapping[PolicyName, Policy] = {
    "least-load": least_load,
    "p2c": two_choices,
    "prefix": by_prefix,
    "random": at_random,
    "round-robin": by_turns,
    "weighted": by_weight,
}


def _less_loaded(field: Field, drawn: Sequence[int], weights: Sequence[float]) -> Pick:
    scores = [(at, field.load(at) / weights[at]) for at in drawn]
    return Pick(min(scores, key=lambda score: score[1])[0], scores)


def _draw_two(weights: Sequence[float], rng: random.Random) -> Sequence[int]:
    if len(weights) == 1:
        return (0,)
    first = _at_point(weights, rng.random())
    others = [0.0 if at == first else weight for at, weight in enumerate(weights)]
    return first, _at_point(others, rng.random())


def _at_point(weights: Sequence[float], share: float) -> int:
    point = share * sum(weights)
    for at, weight in enumerate(weights):
        point -= weight
        if point < 0:
            return at
    return max(range(len(weights)), key=weights.__getitem__)  # rounding
