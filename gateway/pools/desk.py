"""What the supervisor tells a worker's pools, and asks of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from backends import Affinity, BackendError, Explanation, MemberView, Needs, Signals

from .effective import Specs


class RouteQuestion(msgspec.Struct, frozen=True):
    """Where would a request of this kind go now?"""

    model: str
    sticky: str | None = None
    needs: Needs = Needs()
    affinity: Affinity = Affinity()


class AskPools(msgspec.Struct, frozen=True, tag=True):
    """To a worker: how do the members stand, and, if there is a question, where would such a request go?"""

    ask_id: int
    question: RouteQuestion | None = None


class PoolsTold(msgspec.Struct, frozen=True, tag=True):
    """From a worker. `explanation` answers the question; where there is none to give, `problem` says why."""

    ask_id: int
    members: list[MemberView] = []
    explanation: Explanation | None = None
    problem: str | None = None


class PoolDesk(Protocol):
    """The pools of a worker, as the shell around them speaks to them."""

    def use(self, specs: Specs) -> None: ...

    def hear(self, signals: Iterable[Signals]) -> None: ...

    def members(self) -> list[MemberView]: ...

    def explain(self, model: str, *, sticky: str | None, needs: Needs, affinity: Affinity) -> Explanation: ...


class NoPools:
    """The desk of a worker that has no pools (yet)."""

    def use(self, specs: Specs) -> None:
        pass

    def hear(self, signals: Iterable[Signals]) -> None:
        pass

    def members(self) -> list[MemberView]:
        return []

    def explain(self, model: str, *, sticky: str | None, needs: Needs, affinity: Affinity) -> Explanation:
        raise BackendError(f"no pool serves the model {model!r}")


def answered(ask: AskPools, desk: PoolDesk) -> PoolsTold:
    if (question := ask.question) is None:
        return PoolsTold(ask.ask_id, desk.members())
    try:
        explanation = desk.explain(
            question.model, sticky=question.sticky, needs=question.needs, affinity=question.affinity
        )
    except BackendError as error:
        return PoolsTold(ask.ask_id, problem=str(error))
    return PoolsTold(ask.ask_id, explanation=explanation)
