"""A router on a clock that stands still, and short ways to use it."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from backends import Affinity, Candidate, Member, Needs, Pool, Signals, Version
from backends.model import PolicyName
from backends.router import Router
from backends.trial import Trial

VERSION = Version("m", "1")


def a_member(name: str, **fields: Any) -> Member:
    return Member(name, f"http://{name}", "m", "1", **fields)


class Bench:
    """A pool of the model "m" with what it takes to move time."""

    def __init__(
        self, *members: str | Member, policy: PolicyName = "least-load", workers: int = 1, seed: int = 1
    ) -> None:
        self.now_s = 1000.0
        self.members = tuple(one if isinstance(one, Member) else a_member(one) for one in members)
        self.policy: PolicyName = policy
        self.router = Router(
            {"m": Pool(self.members, policy=policy)},
            clock=lambda: self.now_s,
            rng=random.Random(seed),
            live_workers=lambda: workers,
        )

    def update(self, *members: str | Member, **fields: Any) -> None:
        self.members = tuple(one if isinstance(one, Member) else a_member(one) for one in members)
        self.router.update({"m": Pool(self.members, policy=self.policy, **fields)})

    def say(self, member: str, running: float | None = 0.0, **fields: Any) -> None:
        """The member's word, of this moment."""
        fields = {"health": "ok", "interval_s": 0.25, **fields}
        self.router.update_signals([Signals(member, self.now_s, running=running, **fields)])

    def choose(self, *, needs: Needs | None = None, **affinity: str) -> str:
        return self.choice(needs=needs, **affinity)[0]

    def choice(self, *, needs: Needs | None = None, **affinity: str) -> tuple[str, tuple[Candidate, ...]]:
        member, candidates = self.router.choose(
            "m", self.members, needs=needs or Needs(), affinity=Affinity(**affinity)
        )
        return member.name, candidates

    def shares(self, draws: int = 1000, **how: Any) -> Counter[str]:
        """How often each is chosen when nothing is sent in between."""
        return Counter(self.choose(**how) for _ in range(draws))

    def begin(self, name: str, *, is_stream: bool = True) -> Trial:
        member = next(one for one in self.members if one.name == name)
        return self.router.begin(member, version=VERSION, is_stream=is_stream, patience_s=60.0)

    def fail(self, name: str, word: str = "status", *, times: int = 1) -> None:
        for _ in range(times):
            self.begin(name).end(word)

    def answer(self, name: str, *, took_s: float = 0.0, first_token_s: float = 0.0, times: int = 1) -> None:
        for _ in range(times):
            trial = self.begin(name)
            self.now_s += first_token_s
            trial.note_answer(is_first_token=True)
            self.now_s += took_s - first_token_s
            trial.end(is_complete=True)
