"""Asks a judge of the pool about answers that an admin gives: apart from audits, and from what these may spend."""

from __future__ import annotations

from typing import Any

from backends import BackendError, Pools
from cache import Exchange

from ..errors import InvalidRequest
from ..evidence.desk import AskJudge
from ..evidence.judging import Asker, ModelJudge, Spending

_PER_HOUR = 10_000


class JudgeDesk:
    def __init__(self, pools: Pools) -> None:
        self._asker = Asker(pools, Spending(_PER_HOUR))

    async def ask(self, wish: AskJudge) -> dict[str, Any]:
        """Raises ApiError where no pool serves the model."""
        try:
            self._asker.resolve(wish.judge)
        except BackendError as error:
            raise InvalidRequest(str(error), param="judge") from error
        exchange = Exchange(wish.question, wish.fresh_answer, wish.stored_question, wish.stored_answer)
        return {"agrees": await ModelJudge(self._asker, wish.judge).agrees(exchange)}
