"""The admin API's judges: ask one, say how one was measured; and what the audits of namespaces show in hindsight."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, Field, model_validator

from cache import JudgeRates, correction_of

from ..errors import Unavailable
from ..evidence.desk import AskJudge, ShadowCurves
from ..evidence.judges import read_judges, write_judge
from ..host.control import JudgeMeasured
from .access import Actor, needs
from .cache import answer_of
from .model import Asked
from .replies import errors

if TYPE_CHECKING:
    from .app import AdminContext

JudgeName = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")]
Text = Annotated[str, Field(max_length=20_000)]
Count = Annotated[int, Field(ge=0, le=1_000_000_000)]


class JudgeWish(Asked):
    """Is the stored answer right for the question, going by the fresh one? Nothing of it is kept."""

    judge: JudgeName = Field(description="The public name of a model.")
    question: Text
    fresh_answer: Text
    stored_question: Text
    stored_answer: Text

    def wish(self) -> AskJudge:
        return AskJudge(
            self.judge, self.question, self.fresh_answer, self.stored_question, self.stored_answer
        )


class Judgement(BaseModel):
    agrees: bool | None = Field(description="null: it cannot tell.")


class JudgeRecord(Asked):
    """How a judge did on labelled answers: `echogate calibrate --judge` counts it."""

    judge: JudgeName = Field(description="`agreement`, or the public name of a model.")
    wrong: Count = Field(description="Answers that are wrong, by their labels.")
    false_agrees: Count = Field(description="Those of them that it called right.")
    right: Count = Field(description="Answers that are right.")
    false_disagrees: Count = Field(description="Those of them that it called wrong.")

    @model_validator(mode="after")
    def _no_more_than_all(self) -> JudgeRecord:
        if self.false_agrees > self.wrong or self.false_disagrees > self.right:
            raise ValueError(
                "false_agrees are among wrong, and false_disagrees among right: not more than those"
            )
        return self

    def rates(self) -> JudgeRates:
        return JudgeRates(self.wrong, self.false_agrees, self.right, self.false_disagrees)


class JudgeSet(BaseModel):
    judge: str
    is_usable: bool | None = Field(description="false: its findings do not count; null: it is not measured.")
    change_id: str | None = Field(description="Of the control record; null: the store did not take it.")
    not_acknowledged_by: list[int] = Field(description="Numbers of this host's workers; empty: all have it.")


def judges_router(context: AdminContext) -> APIRouter:
    router = APIRouter(prefix="/admin/cache", tags=["cache"])
    reader, operator = Depends(needs(context, "read")), Depends(needs(context, "operate"))

    @router.get("/shadow", responses=errors(), dependencies=[reader])
    async def shadow(
        tenant: Annotated[str, Query(min_length=1, max_length=64)],
        namespace: Annotated[str | None, Query(max_length=64)] = None,
        model: Annotated[str | None, Query(max_length=256)] = None,
    ) -> dict[str, Any]:
        """What other thresholds and budgets would have served, going by each namespace's own audits."""
        return answer_of(await context.ask_cache(ShadowCurves(tenant, namespace, model)))

    @router.post("/judgements", responses=errors(), dependencies=[operator])
    async def judge(asked: JudgeWish) -> Judgement:
        """Ask a model of the pool as audits do: one call."""
        return Judgement(**answer_of(await context.ask_cache(asked.wish())))

    @router.get("/judges", responses=errors(), dependencies=[reader])
    async def judges() -> dict[str, Any]:
        """Judges that are measured, with their rates. F is corrected for these."""
        try:
            measured = await read_judges(context.store)
        except OSError as error:
            raise Unavailable(_STORE_GONE, code="store_unavailable") from error
        return {
            "object": "list",
            "data": [
                {
                    "judge": name,
                    "wrong": each.rates.wrong,
                    "false_agrees": each.rates.false_agrees,
                    "right": each.rates.right,
                    "false_disagrees": each.rates.false_disagrees,
                    "is_usable": correction_of(each.rates).is_usable,
                    "installed_at": each.at_s,
                }
                for name, each in sorted(measured.items())
            ],
        }

    @router.put("/judges", responses=errors())
    async def install(asked: JudgeRecord, actor: Actor = operator) -> JudgeSet:
        """Correct F for how this judge was measured, on every worker, over restarts."""
        return await change(actor, asked.judge, asked.rates())

    @router.delete("/judges", responses=errors())
    async def remove(
        judge: Annotated[str, Query(min_length=1, max_length=256, pattern=r"^[^\x00-\x1f\x7f]+$")],
        actor: Actor = operator,
    ) -> JudgeSet:
        """Take this judge at its word again."""
        return await change(actor, judge, None)

    async def change(actor: Actor, judge: str, rates: JudgeRates | None) -> JudgeSet:
        try:
            await write_judge(context.store, judge, rates)
        except OSError as error:
            await context.auditor.record(actor.did("cache.judge", judge, "unknown"))
            raise Unavailable(_STORE_GONE, code="store_unavailable") from error
        after = {} if rates is None else {name: getattr(rates, name) for name in rates.__struct_fields__}
        await context.auditor.record(actor.did("cache.judge", judge, after=after))
        change_id, late = await context.publish(JudgeMeasured(judge, rates))
        return JudgeSet(
            judge=judge,
            is_usable=None if rates is None else correction_of(rates).is_usable,
            change_id=change_id,
            not_acknowledged_by=late,
        )

    return router


_STORE_GONE = (
    "The durable store (store.durable) does not answer; what was asked may have been done nonetheless."
)
