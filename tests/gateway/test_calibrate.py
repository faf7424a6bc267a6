"""`echogate calibrate`: counts on pairs, a curve on a stream, and refusals that say what to change."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cache.testing import HashEmbedder
from gateway.commands.main import app
from gateway.ops.calibrate import Counts, count_pairs, trace_curve
from gateway.ops.calibrate_text import curve_text, pairs_text
from gateway.ops.curve_png import curve_png
from gateway.ops.labelled import BadFile

PAIRS = [
    {"a": "How do I close my account", "b": "how do i close my account", "same": True, "kind": "case"},
    {"a": "Wait 5 days for a card", "b": "Wait 6 days for a card", "same": False, "kind": "number"},
    {"a": "Where is the bank", "b": "Who painted this picture", "same": False, "kind": "topic"},
]


def written(path: Path, records: list[dict[str, object]]) -> Path:
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def counted(found: list[Counts], policy: str, kind: str) -> Counts:
    return next(c for c in found if (c.policy, c.kind, c.threshold) == (policy, kind, 0.80))


def test_pairs_are_counted_by_policy_threshold_and_kind(tmp_path: Path) -> None:
    found = count_pairs(written(tmp_path / "pairs", PAIRS), HashEmbedder())
    fixed, guarded = counted(found, "fixed", "all"), counted(found, "guarded", "all")
    assert (fixed.pairs, fixed.served, fixed.false, fixed.true) == (3, 2, 1, 1)
    assert (guarded.served, guarded.false, guarded.true) == (1, 0, 1)
    assert counted(found, "guarded", "number").served == 0
    assert any("number" in line for line in pairs_text(found))


def test_pairs_that_are_equal_but_for_typing_or_in_canonical_form_are_served_as_they_are_live(
    tmp_path: Path,
) -> None:
    pairs: list[dict[str, object]] = [
        {"a": "Where is the bank?", "b": "where  is the bank", "same": True, "kind": "typing"},
        {"a": "怎么注销我的账户？", "b": "如何注销我的账户呢", "same": True, "kind": "form"},
        {"a": "怎么注销我的账户？", "b": "怎么打开我的账户？", "same": False, "kind": "other"},
    ]
    found = [
        each for each in count_pairs(written(tmp_path / "p", pairs), HashEmbedder()) if each.threshold == 0.99
    ]
    guarded = {each.kind: each.served for each in found if each.policy == "guarded"}
    assert guarded == {"all": 2, "typing": 1, "form": 1, "other": 0}


def test_a_stream_gives_a_curve_with_advice_and_a_picture(tmp_path: Path) -> None:
    records: list[dict[str, object]] = [
        {"text": f"question about matter{at % 5} please", "cls": at % 5} for at in range(60)
    ]
    curve = trace_curve(written(tmp_path / "stream", records), HashEmbedder(), tell=lambda _: None)
    assert {point.policy for point in curve.points} == {"fixed", "guarded", "learned"}
    assert all(point.hits <= point.requests == 60 for point in curve.points)
    assert json.loads(json.dumps(curve.record()))["recommended"]
    assert any("budget 2%" in line for line in curve_text(curve))
    picture = curve_png(curve)
    assert picture.startswith(b"\x89PNG")
    assert struct.unpack(">II", picture[16:24]) == (720, 460)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [("", "has no lines"), ("{", "line 1: no JSON"), ('{"a": "x"}', "line 1: an object with a, b, same")],
)
def test_a_file_of_another_form_is_refused_with_the_line(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "pairs"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(BadFile, match=complaint):
        count_pairs(path, HashEmbedder())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read"):
        count_pairs(tmp_path / "nowhere", HashEmbedder())


@pytest.mark.parametrize("arguments", [[], ["--pairs", "x", "--stream", "y"]])
def test_the_command_wants_one_file(arguments: list[str]) -> None:
    done = CliRunner().invoke(app, ["calibrate", *arguments])
    assert done.exit_code == 1
    assert "give one of --pairs, --stream, --shadow and --judge" in done.output
