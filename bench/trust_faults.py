"""What the bound does when the ground under it gives way: judges that err, answers that change, foreign questions."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from auth import Principal
from backends import Version
from bench.vectors import embedded
from cache.acceptance import Features, is_same
from cache.evidence.replay import Course, Outcome, Stream, honest, replay
from cache.evidence.standing import Rules
from gateway.body import split
from gateway.controls import Controls
from gateway.dialects import CHAT
from gateway.eligibility import plan

_RULES = Rules("learned", budget=0.05)
_THIN = 1_000


def errs_at_random(is_right: bool, _: Features, chance: random.Random) -> bool:
    """One verdict in ten is turned round."""
    return is_right != (chance.random() < 0.1)


def errs_with_the_model(is_right: bool, found: Features, chance: random.Random) -> bool:
    """Half of the wrong pairs that look alike to the embedder look alike to the judge too."""
    return is_right or (found.cosine > 0.9 and chance.random() < 0.5)


def agrees_always(_: bool, __: Features, ___: random.Random) -> bool:
    return True


def faults(stream: Stream) -> dict[str, Any]:
    middle = len(stream.texts) // 2
    moved = [(label, at >= middle) for at, label in enumerate(stream.labels)]
    runs = {
        "honest judge": replay(stream, Course(_RULES), judge=honest),
        "judge errs 10% at random": replay(stream, Course(_RULES), judge=errs_at_random),
        "judge errs with the model": replay(stream, Course(_RULES), judge=errs_with_the_model),
        "judge always agrees": replay(stream, Course(_RULES), judge=agrees_always),
        "no audits (judge down)": replay(stream, Course(_RULES, audited_hits=0, audited_misses=0)),
        "30% of misses audited": replay(stream, Course(_RULES, audited_misses=0.3)),
        "audit queue full, 9 of 10 lost": replay(
            stream, Course(_RULES, audited_hits=0.002, audited_misses=0.1)
        ),
        "all answers change half-way": replay(replace(stream, labels=moved), Course(_RULES)),
        "same, 10% of hits audited": replay(replace(stream, labels=moved), Course(_RULES, audited_hits=0.1)),
    }
    print(
        f"\nbudget 5%, one shuffle {'':8}{'hits':>8}{'F':>8}   hits and wrong ones by eighths of the stream"
    )
    for name, run in runs.items():
        share = run.wrong / max(1, run.hits)
        print(
            f"{name:32}{100 * run.hits / run.requests:7.1f}%{100 * share:7.2f}%   {_eighths(run)}", flush=True
        )
    return {
        name: {"hits": round(run.hits / run.requests, 4), "F": round(run.wrong / max(1, run.hits), 4)}
        for name, run in runs.items()
    }


def borrowing(stream: Stream) -> dict[str, Any]:
    """What a namespace of 1,000 questions does with weights that another one learned: where its questions mean the same
    things, and where each of them asks for something else, so that every hit would be wrong."""
    lent = replay(stream.part(range(_THIN, len(stream.texts))), Course(_RULES)).weights
    alike = stream.part(range(_THIN))
    other = replace(alike, labels=list(range(_THIN)))
    rules = msgspec.structs.replace(_RULES, is_strict=True)
    found = {}
    print(f"\nbudget 5%, the first {_THIN:,} requests, 30% of misses audited, strict")
    for name, thin, lender in (
        ("alike, alone", alike, None),
        ("alike, borrowing", alike, lent),
        ("of other meaning, alone", other, None),
        ("of other meaning, borrowing", other, lent),
    ):
        run = replay(thin, Course(rules, audited_misses=0.3, lent=lender))
        found[name] = {"hits": run.hits, "wrong": run.wrong, "first_serve": run.first_serve}
        print(f"{name:32}{run.hits:6} hits, {run.wrong} wrong, the first at request {run.first_serve}")
    return found


def out_of_scope(stream: Stream, path: Path) -> dict[str, int]:
    """How many questions that fit no answer are answered by meaning, after the stream, by budget. One that was asked
    before in the same words, however typed, is answered before meaning is looked at."""
    texts = [json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines()]
    labels = [*stream.labels, *(("out of scope", at) for at in range(len(texts)))]
    both = Stream([*stream.texts, *texts], labels, np.concatenate([stream.vectors, embedded(texts)]))
    served = {}
    for budget in (0.02, 0.05):
        run = replay(both, Course(Rules("learned", budget=budget)))
        answered = [
            (at, stored)
            for at, stored in run.mistakes
            if at >= len(stream.texts) and stored < len(stream.texts)
        ]
        foreign = [at for at, stored in answered if not is_same(both.texts[at], both.texts[stored])]
        among = [at for at, stored in run.mistakes if at >= len(stream.texts) and stored >= len(stream.texts)]
        served[f"{budget:g}"] = len(foreign)
        print(f"out of scope, budget {budget:g}: {len(foreign)} of {len(texts)} got an answer of the stream (and "
              f"{len(answered) - len(foreign)} in words that it holds), {len(among)} that of another one")  # fmt: skip
    return served


def other_histories(path: Path) -> int:
    """How many pairs of conversations with different histories the gateway puts into one partition."""
    pairs = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    different = [pair for pair in pairs if pair["a"]["history"] != pair["b"]["history"]]
    sharing = sum(_material(pair["a"]) == _material(pair["b"]) for pair in different)
    print(f"other histories: {sharing} of {len(different)} pairs share a partition")
    return sharing


def _material(talk: dict[str, Any]) -> bytes:
    turns: Sequence[str] = [*talk["history"], talk["text"]]
    messages = [{"role": "user", "content": turn} for turn in turns]
    body = json.dumps({"model": "m", "messages": messages}).encode()
    planned = plan(
        split(body).values,
        dialect=CHAT,
        principal=Principal(key_id="k", tenant="t", service="s"),
        version=Version("m", "1"),
        controls=Controls(),
    )
    return planned.material


def _eighths(run: Outcome) -> str:
    size = run.requests / 8
    wrong = {at for at, _ in run.mistakes}
    parts = [[at for at in run.served if size * number <= at < size * (number + 1)] for number in range(8)]
    return "  ".join(f"{len(part)}/{len(wrong & set(part))}" for part in parts)
