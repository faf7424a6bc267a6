"""Calibration of a running deployment: a real `serve` of two workers and its commands, as an operator types them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from tests.e2e.deployment import Deployment, deployed, environment, until
from tests.scripted import Call, ScriptedUpstream, Wire, completion

ASKED = "What is the capital city of France?"
SAME = "What's the capital city of France?"
ANSWERS = [
    {
        "question": SAME,
        "fresh_answer": "Paris.",
        "stored_question": ASKED,
        "stored_answer": stored,
        "label": stored == "It is Paris.",
    }
    for stored in ("It is Paris.", "It is Lyon.") * 12
]


class Model(ScriptedUpstream):
    """Answers with the same words always, and judges that Lyon is wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.handler = self._answer

    async def _answer(self, call: Call, wire: Wire) -> None:
        said = "Paris."
        if "compare answers" in call.json["messages"][0]["content"]:
            said = "no" if "Lyon" in call.json["messages"][1]["content"] else "yes"
        await wire.json(completion(said))


async def said(echogate: Deployment, *arguments: str) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "gateway", *arguments, "--config", str(echogate.config),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()


@pytest.mark.full
async def test_a_judge_is_measured_and_installed_and_audits_are_looked_back_on(tmp_path: Path) -> None:
    answers, png = tmp_path / "answers.jsonl", tmp_path / "curve.png"
    answers.write_text("\n".join(map(json.dumps, ANSWERS)), encoding="utf-8")
    async with (
        Model() as model,
        deployed(
            tmp_path / "data",
            model.base_url,
            workers=2,
            variables={
                "ECHOGATE_CACHE__MODE": "shadow",
                "ECHOGATE_CACHE__AUDITS__SHADOW_SHARE": "1",
                "ECHOGATE_CACHE__AUDITS__JUDGE": "m1",
            },
        ) as echogate,
    ):
        command = ["calibrate", "--judge", "m1", "--answers", str(answers)]
        found = json.loads(await said(echogate, *command, "--json"))
        assert (found["wrong"], found["false_agrees"]) == (12, 0)
        assert (found["right"], found["false_disagrees"]) == (12, 0)
        assert not (await echogate.admin.get("/admin/cache/judges")).json()["data"]
        assert "installed" in await said(echogate, *command, "--install")
        listed = (await echogate.admin.get("/admin/cache/judges")).json()["data"]
        assert [(each["judge"], each["is_usable"]) for each in listed] == [("m1", True)]

        key = str((await echogate.create_key())["key"])
        numbers = iter(range(1_000))

        async def is_audited() -> bool:
            """Whichever worker asks finds a neighbour only once it has heard of it."""
            await echogate.ask(f"{ASKED} {'Please. ' * next(numbers)}", key=key)
            return bool(
                (await echogate.admin.get("/admin/cache/shadow", params={"tenant": "acme"})).json()["data"]
            )

        await until(is_audited, within_s=60)
        drawn = ["calibrate", "--shadow", "--tenant", "acme", "--png", str(png), "--json"]
        (curve,) = json.loads(await said(echogate, *drawn))
        assert (curve["judged_by"], curve["is_corrected"]) == (["m1"], True)
        assert curve["points"][0]["hits"] >= 1
        assert png.read_bytes().startswith(b"\x89PNG")

        report = await said(echogate, "cache", "report", "--days", "1")
        assert "not served, mostly because:" in report
