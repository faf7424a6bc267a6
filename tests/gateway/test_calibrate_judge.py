"""`echogate calibrate --judge`: how often a judge errs, by labelled answers; and F corrected for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cache import Exchange, JudgeRates
from gateway.commands.main import app
from gateway.evidence.desk import AskJudge, Report
from gateway.evidence.judges import write_judge
from gateway.host.control import JudgeMeasured
from gateway.ops.calibrate_judge import judge_text, measure, read_answers
from gateway.ops.labelled import BadFile
from gateway.store.client import StoreClient
from tests.cache.prepared import prepared_model
from tests.running import RunningGateway, running_gateway
from tests.scripted import Call, ScriptedUpstream, Wire, completion
from tests.valkey import eventually, running_valkey

from .admin_api import running_admin

NAMESPACE = "acme/default/m1"
ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"
HONEST = JudgeRates(wrong=500, false_agrees=5, right=500, false_disagrees=10)
BLIND = JudgeRates(wrong=500, false_agrees=490, right=500, false_disagrees=0)
RECORD = {"wrong": 500, "false_agrees": 5, "right": 500, "false_disagrees": 10}


def labelled(fresh: str, stored: str, *, is_right: bool) -> dict[str, Any]:
    return {
        "question": "How long does a transfer take?",
        "fresh_answer": fresh,
        "stored_question": "How long do transfers take?",
        "stored_answer": stored,
        "label": is_right,
    }


ANSWERS = [
    labelled("It takes 3 days.", "It takes 3 days.", is_right=True),
    labelled("A transfer takes 3 days.", "Transfers take 3 days.", is_right=True),
    labelled("It takes 3 days.", "Horses eat grass and hay.", is_right=True),  # nobody would see that
    labelled("It takes 3 days.", "It takes 5 days.", is_right=False),
    labelled("It takes 3 days.", "It takes 3 days.", is_right=False),  # nor that
]


def written(path: Path, records: list[dict[str, Any]]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


async def test_errors_of_both_kinds_are_counted_and_what_it_cannot_tell_is_not(tmp_path: Path) -> None:
    said = iter([True, False, None, True, False])

    async def ask(_: Exchange) -> bool | None:
        return next(said)

    report = await measure("m", ask, read_answers(written(tmp_path / "f", ANSWERS)), tell=lambda _: None)
    assert report.rates == JudgeRates(wrong=2, false_agrees=1, right=2, false_disagrees=1)
    assert report.unjudged == 1
    assert not report.is_usable
    lines = list(judge_text(report))
    assert any("1 of 2, 50.0%, 90% interval" in line for line in lines)
    assert "not usable" in lines[-1]


def test_a_label_that_says_neither_is_refused_with_its_line(tmp_path: Path) -> None:
    path = written(tmp_path / "f", [ANSWERS[0], ANSWERS[1] | {"label": "same"}])
    with pytest.raises(BadFile, match="line 2: label must be true"):
        read_answers(path)


def test_the_judge_that_is_always_there_is_measured_without_a_server(tmp_path: Path) -> None:
    config = tmp_path / "echogate.yaml"
    config.write_text(json.dumps({"cache": {"embedder": {"model": str(prepared_model())}}}))
    answers = written(tmp_path / "f", ANSWERS)
    command = ["calibrate", "--judge", "agreement", "--answers", str(answers), "--config", str(config)]
    done = CliRunner().invoke(app, [*command, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["wrong"], found["false_agrees"]) == (2, 1)
    assert (found["right"], found["false_disagrees"]) == (3, 1)
    assert found["false_disagree_low"] < 1 / 3 < found["false_disagree_high"]
    assert "judge agreement" in CliRunner().invoke(app, command).stdout


@pytest.mark.parametrize(
    "arguments", [["--judge", "agreement"], ["--pairs", "x", "--answers", "y"], ["--shadow"]]
)
def test_what_goes_together_is_said(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["calibrate", *arguments])
    assert done.exit_code == 1
    assert "go together" in done.output or "needs --tenant" in done.output


class Model(ScriptedUpstream):
    """Answers questions with the same words always, and judgements with `no`."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        is_judgement = "compare answers" in call.json["messages"][0]["content"]
        await wire.json(completion("no" if is_judgement else "Paris."))


async def test_a_model_of_the_pool_is_asked_as_audits_ask_it() -> None:
    async with Model() as model, running_gateway(model) as gateway:
        asked = AskJudge("m2", "How long?", "3 days", "How long is it?", "5 days")
        assert (await gateway.ask_cache(asked)).told == {"agrees": False}
        unknown = await gateway.ask_cache(AskJudge("nobody", "a", "b", "c", "d"))
        assert unknown.told is None
        assert "nobody" in (unknown.problem or "")


async def stood(gateway: RunningGateway) -> dict[str, Any]:
    told = (await gateway.ask_cache(Report())).told
    assert told is not None
    return dict(told["data"][0]) if told["data"] else {"f": {"audits": 0, "is_corrected": None}}


def audited() -> dict[str, Any]:
    return {
        "embedder": {"kind": "onnx", "model": str(prepared_model())},
        "semantic_deadline_ms": 5000,
        "audits": {"shadow_share": 1, "served_share": 1},
    }


async def a_hit_was_audited(gateway: RunningGateway) -> None:
    for text in (ASKED, SAME):
        await gateway.chat(text)
        await gateway.idle()
    await eventually(lambda: gateway.plane.cache.standing(NAMESPACE).wrong_share.audits == 1, within_s=10)


async def test_f_is_corrected_from_when_it_is_known_how_the_judge_errs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.evidence.caching._SETTLE_EVERY_S", 0.05)
    async with Model() as model, running_gateway(model, cache=audited()) as gateway:
        await a_hit_was_audited(gateway)
        assert (await stood(gateway))["f"]["is_corrected"] is False

        gateway.control(JudgeMeasured("agreement", HONEST))
        standing = gateway.plane.cache.standing
        await eventually(lambda: standing(NAMESPACE).corrected is not None, within_s=10)
        found = await stood(gateway)
        assert found["f"]["is_corrected"] is True
        assert (found["f"]["found"], found["f"]["share"]) == (0.0, 0.0)

        gateway.control(JudgeMeasured("agreement", BLIND))
        await eventually(lambda: standing(NAMESPACE).reason == "judge-not-usable", within_s=10)
        assert (await stood(gateway))["f"]["audits"] == 0

        gateway.control(JudgeMeasured("agreement", None))
        await eventually(lambda: standing(NAMESPACE).wrong_share.audits == 1, within_s=10)
        assert (await stood(gateway))["f"]["is_corrected"] is False


async def test_how_a_judge_errs_is_known_after_a_restart() -> None:
    async with running_valkey() as valkey, Model() as model:
        async with StoreClient.open(valkey.url, deadline_s=5) as store:
            await write_judge(store, "agreement", HONEST)
        async with running_gateway(model, valkey=valkey, cache=audited()) as gateway:
            await a_hit_was_audited(gateway)
            assert (await stood(gateway))["f"]["is_corrected"] is True


async def test_installing_and_removing_a_measured_judge_is_told_to_workers_and_on_record(
    tmp_path: Path,
) -> None:
    async with running_admin(tmp_path) as admin:
        reply = await admin.api.put("/admin/cache/judges", json={"judge": "org/model", **RECORD})
        assert reply.status_code == 200, reply.text
        assert reply.json()["is_usable"] is True
        (listed,) = (await admin.api.get("/admin/cache/judges")).json()["data"]
        assert (listed["judge"], listed["false_agrees"]) == ("org/model", 5)
        gone = await admin.api.delete("/admin/cache/judges", params={"judge": "org/model"})
        assert gone.json()["is_usable"] is None
        assert (await admin.api.get("/admin/cache/judges")).json()["data"] == []
        assert admin.host.applied == [JudgeMeasured("org/model", HONEST), JudgeMeasured("org/model", None)]
        acts = [record for record in await admin.audited() if record["action"] == "cache.judge"]
        assert [record["target"] for record in acts] == ["org/model", "org/model"]
        assert acts[0]["after"] == RECORD


async def test_more_errors_than_answers_are_refused(tmp_path: Path) -> None:
    async with running_admin(tmp_path) as admin:
        reply = await admin.api.put("/admin/cache/judges", json={"judge": "m", **RECORD, "false_agrees": 501})
        assert reply.status_code == 400
        assert "not more than those" in reply.json()["error"]["message"]


async def test_a_viewer_may_see_judges_and_change_none(tmp_path: Path) -> None:
    async with running_admin(tmp_path) as admin:
        viewer = await admin.key_of("viewer")
        seen = await admin.api.get("/admin/cache/judges", headers=viewer)
        refused = await admin.api.put("/admin/cache/judges", json={"judge": "m", **RECORD}, headers=viewer)
        assert (seen.status_code, refused.status_code) == (200, 403)
