"""Makes a stream of requests out of labelled questions: so many repeat an earlier one, so many say it in other words.

    python -m bench.workload --questions FILE --repeats 0.3 --paraphrases 0.4 --size 200 > STREAM

`FILE` has one `{"text": …, "cls": …}` a line; questions of equal `cls` mean the same. A paraphrase of a question is
that one of its class, not asked yet, which shares most words with it. What is neither a repeat nor a paraphrase is of a
class that was not asked before. The lines have a `kind`: `new`, `repeat` or `paraphrase`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["new", "repeat", "paraphrase"]


class TooFewQuestions(Exception):
    """The questions do not suffice for such a stream. The message says what would."""


@dataclass(frozen=True, slots=True)
class Asked:
    text: str
    cls: str
    kind: Kind


def workload(
    questions: Sequence[tuple[str, str]], *, repeats: float, paraphrases: float, size: int, seed: int = 0
) -> list[Asked]:
    """`questions` are texts with their classes; the shares are of `size`. Raises TooFewQuestions."""
    chance = random.Random(seed)
    unasked: dict[str, list[str]] = defaultdict(list)
    for text, cls in dict(questions).items():  # each text once
        unasked[cls].append(text)
    for texts in unasked.values():
        chance.shuffle(texts)
    fresh = sorted(unasked)
    chance.shuffle(fresh)
    made: list[Asked] = []
    for kind in _kinds(round(size * repeats), round(size * paraphrases), size, chance):
        if kind == "repeat":
            earlier = chance.choice(made)
            made.append(Asked(earlier.text, earlier.cls, "repeat"))
            continue
        known = [each for each in made if unasked[each.cls]]
        if not (fresh if kind == "new" else known):
            raise TooFewQuestions(
                f"{len(made)} requests are all there is to make of {len(unasked)} classes with these shares: "
                f"give more questions, more repeats, or a smaller --size than {size}"
            )
        if kind == "new":
            cls = fresh.pop()
            made.append(Asked(unasked[cls].pop(), cls, "new"))
        else:
            asked = chance.choice(known)
            text = max(unasked[asked.cls], key=lambda text: _shared(text, asked.text))
            unasked[asked.cls].remove(text)
            made.append(Asked(text, asked.cls, "paraphrase"))
    return made


def _shared(one: str, other: str) -> float:
    """Of their words, how many both have."""
    first, second = set(one.lower().split()), set(other.lower().split())
    return len(first & second) / len(first | second)


def _kinds(repeats: int, paraphrases: int, size: int, chance: random.Random) -> list[Kind]:
    """In random order, but for the first, which nothing comes before."""
    if not 0 <= repeats + paraphrases < size:
        raise TooFewQuestions("the shares of repeats and paraphrases must leave room for one new question")
    new = size - 1 - repeats - paraphrases
    shares: tuple[tuple[Kind, int], ...] = (("repeat", repeats), ("paraphrase", paraphrases), ("new", new))
    rest = [kind for kind, count in shares for _ in range(count)]
    chance.shuffle(rest)
    return ["new", *rest]


def read_questions(path: Path) -> list[tuple[str, str]]:
    return [(text, cls) for text, cls, _ in read_stream(path)]


def read_stream(path: Path) -> Iterator[tuple[str, str, str]]:
    """Text, class and kind of each line (the kind is empty where the file has none)."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.strip():
            record = json.loads(line)
            yield str(record["text"]), str(record["cls"]), str(record.get("kind", ""))


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.workload", description="Make a stream of requests."
    )
    parser.add_argument("--questions", type=Path, required=True, metavar="FILE")
    parser.add_argument("--repeats", type=float, default=0.3, help="share of exact repeats (default: 0.3)")
    parser.add_argument("--paraphrases", type=float, default=0.4, help="share of rewordings (default: 0.4)")
    parser.add_argument("--size", type=int, default=200, help="requests (default: 200)")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    try:
        stream = workload(
            read_questions(asked.questions),
            repeats=asked.repeats,
            paraphrases=asked.paraphrases,
            size=asked.size,
            seed=asked.seed,
        )
    except TooFewQuestions as error:
        raise SystemExit(f"error: {error}") from error
    for each in stream:
        print(json.dumps({"text": each.text, "cls": each.cls, "kind": each.kind}, ensure_ascii=False))


if __name__ == "__main__":
    main()
