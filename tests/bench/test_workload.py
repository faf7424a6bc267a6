"""The stream maker: as many repeats and paraphrases as asked for, each of something asked before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.workload import TooFewQuestions, main, read_stream, workload

QUESTIONS = [(f"question {number} about matter {cls}", str(cls)) for cls in range(20) for number in range(10)]


def test_shares_are_kept_and_each_kind_is_what_it_says() -> None:
    made = workload(QUESTIONS, repeats=0.3, paraphrases=0.5, size=100, seed=4)
    kinds = [each.kind for each in made]
    assert (kinds.count("repeat"), kinds.count("paraphrase"), kinds.count("new")) == (30, 50, 20)
    for at, each in enumerate(made):
        texts = {earlier.text for earlier in made[:at]}
        classes = {earlier.cls for earlier in made[:at]}
        assert (each.text in texts) == (each.kind == "repeat")
        assert (each.cls in classes) == (each.kind != "new")


def test_a_paraphrase_is_the_one_that_shares_most_words() -> None:
    near, nearer = "where is my card", "where is my new card"
    questions = [(near, "a"), (nearer, "a"), ("help", "a")]
    for seed in range(10):
        first, second = workload(questions, repeats=0, paraphrases=0.5, size=2, seed=seed)
        if first.text in (near, nearer):
            assert {first.text, second.text} == {near, nearer}


def test_the_same_seed_makes_the_same_stream_and_another_one_another() -> None:
    one, again, other = (
        workload(QUESTIONS, repeats=0.3, paraphrases=0.5, size=50, seed=seed) for seed in (1, 1, 2)
    )
    assert one == again != other


@pytest.mark.parametrize(
    ("repeats", "paraphrases", "size"), [(0.5, 0.5, 10), (0.0, 0.1, 100), (0.0, 0.99, 500)]
)
def test_what_cannot_be_made_is_refused(repeats: float, paraphrases: float, size: int) -> None:
    with pytest.raises(TooFewQuestions):
        workload(QUESTIONS, repeats=repeats, paraphrases=paraphrases, size=size)


def test_the_command_prints_a_stream_that_can_be_read_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = tmp_path / "questions.jsonl"
    questions.write_text("\n".join(json.dumps({"text": text, "cls": cls}) for text, cls in QUESTIONS))
    monkeypatch.setattr("sys.argv", ["workload", "--questions", str(questions), "--size", "10"])
    main()
    stream = tmp_path / "stream.jsonl"
    stream.write_text(capsys.readouterr().out)
    assert (
        sorted(kind for _, _, kind in read_stream(stream))
        == ["new"] * 3 + ["paraphrase"] * 4 + ["repeat"] * 3
    )
