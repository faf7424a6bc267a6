"""The benchmark of what the cache is worth: a tiny stream through real parts, and one line of JSON at its end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.cache import RULES, main

STREAM = [
    ("What is the capital city of France?", "capital"),
    ("What is the capital city of France?", "capital"),
    ("What's the capital city of France?", "capital"),
    ("Who wrote the play about Hamlet, prince of Denmark?", "hamlet"),
]


@pytest.mark.full
@pytest.mark.timeout(300)
def test_each_rule_is_played_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = tmp_path / "stream.jsonl"
    stream.write_text("\n".join(json.dumps({"text": text, "cls": cls}) for text, cls in STREAM))
    monkeypatch.setenv("STREAM", str(stream))
    main()
    record = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (record["bench"], record["requests"]) == ("cache", 4)
    rows = {row["rule"]: row for row in record["rows"]}
    assert set(rows) == set(RULES)
    assert rows["exact"]["semantic_hits"] == 0
    assert all(row["requests"] == 4 and row["wrong"] == 0 for row in rows.values())
    assert rows["one per cluster 0.82"]["hits"] >= rows["exact"]["hits"]
    assert rows["one per cluster 0.82"]["tokens"] <= rows["exact"]["tokens"]


def test_without_data_nothing_is_measured_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("STREAM", raising=False)
    monkeypatch.setattr("bench.cache.DATA", tmp_path / "nothing")
    main()
    assert "skipped" in capsys.readouterr().out
