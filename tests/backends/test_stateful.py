"""Whatever happens in whatever order: counts stay right, nobody starves, and never too many are ejected."""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    invariant,
    multiple,
    rule,
)

from backends import NoBackend
from backends.choose import POLICIES
from backends.model import PolicyName
from backends.trial import Trial
from tests.backends.routers import Bench

NAMES = ("a", "b", "c", "d", "e")
ENDS = (
    "cancelled",
    "connect",
    "cut",
    "deadline",
    "idle",
    "internal",
    "reset",
    "status",
    "timeout",
    "too-large",
)
HEALTH = ("ok", "failing", "unreachable", "unknown")
names = st.sampled_from(NAMES)


class Routing(RuleBasedStateMachine):
    """The real books on a clock of its own, beside a plain count of what is open."""

    trials = Bundle("trials")

    @initialize(policy=st.sampled_from(sorted(POLICIES)), workers=st.integers(1, 4))
    def start(self, policy: PolicyName, workers: int) -> None:
        self.policy, self.workers = policy, workers
        self.bench = Bench(*NAMES, policy=policy, workers=workers)
        self.open: dict[Trial, str] = {}
        self.drained: dict[str, str] = {}
        self.present = set(NAMES)

    @rule(target=trials, key=st.none() | st.sampled_from("xyz"), count=st.integers(1, 6))
    def send(self, key: str | None, count: int) -> MultipleResults[Trial | None]:
        return multiple(*(self.send_one(key) for _ in range(count)))

    def send_one(self, key: str | None) -> Trial | None:
        try:
            name = self.bench.choose() if key is None else self.bench.choose(prefix=key)
        except NoBackend:
            assert self.present <= self.drained.keys()
            return None
        assert name in self.present - self.drained.keys()
        trial = self.bench.begin(name)
        self.open[trial] = name
        return trial

    @rule(trial=trials)
    def answer_begins(self, trial: Trial | None) -> None:
        if trial in self.open:
            trial.note_answer(is_first_token=True)

    @rule(trial=consumes(trials))
    def complete(self, trial: Trial | None) -> None:
        if trial is not None:
            trial.note_answer(is_first_token=True)
            self.end(trial, None)

    @rule(trial=consumes(trials), error=st.sampled_from(ENDS))
    def break_off(self, trial: Trial | None, error: str) -> None:
        if trial is not None:
            self.end(trial, error)

    @rule(target=trials, trial=consumes(trials))
    def retry_elsewhere(self, trial: Trial | None) -> Trial | None:
        if trial not in self.open:
            return None
        tried = self.open[trial]
        self.end(trial, "reset")
        others = [member for member in self.bench.members if member.name != tried]
        try:
            member, _ = self.bench.router.choose("m", others)
        except NoBackend:
            return None
        assert member.name != tried
        again = self.bench.begin(member.name)
        self.open[again] = member.name
        return again

    @rule()
    def worker_dies(self) -> None:
        """Its successor begins with nothing, and what the dead one had open comes to no end."""
        now_s = self.bench.now_s
        self.bench = Bench(*sorted(self.present), policy=self.policy, workers=self.workers)
        self.bench.now_s = now_s
        self.bench.update(*sorted(self.present), drained=self.drained)
        self.open.clear()

    def end(self, trial: Trial, error: str | None) -> None:
        trial.end(error, is_complete=error is None)
        trial.end("internal")  # on a second way out
        self.open.pop(trial, None)

    @rule(name=names, times=st.integers(1, 12))
    def fail_in_a_row(self, name: str, times: int) -> None:
        if name in self.present:
            self.bench.fail(name, times=times)

    @rule(name=names, running=st.none() | st.integers(0, 50), health=st.sampled_from(HEALTH))
    def scrape(self, name: str, running: int | None, health: str) -> None:
        self.bench.say(name, running=running, health=health)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5, 2.0, 10.0, 70.0]))
    def wait(self, seconds: float) -> None:
        self.bench.now_s += seconds

    @rule(drained=st.sets(names, max_size=2), present=st.sets(names, min_size=2, max_size=4))
    def reconfigure(self, drained: set[str], present: set[str]) -> None:
        self.drained = dict.fromkeys(drained, "admin")
        self.present = present
        self.bench.update(*sorted(present), drained=self.drained)

    @invariant()
    def counts_are_those_of_open_requests(self) -> None:
        counts = self.bench.router.in_flight()
        assert all(count >= 0 for count in counts.values())
        assert sum(counts.values()) == len(self.open)
        for name in counts:
            assert counts[name] == sum(1 for at in self.open.values() if at == name)

    @invariant()
    def never_too_many_are_ejected(self) -> None:
        eligible = self.bench.router.eligible(self.bench.members)
        usable = self.bench.router.usable(eligible)
        stands = [books.standing(self.bench.now_s) for books in eligible]
        assert bool(usable) == bool(eligible)
        pairs = zip(eligible, stands, strict=True)
        left_out = sum(1 for books, stand in pairs if stand == "ejected" and books not in usable)
        assert left_out <= (len(stands) - stands.count("unreached") - stands.count("warming")) / 2

    @invariant()
    def weights_stay_above_nothing(self) -> None:
        for name in self.present:
            assert self.bench.router[name].weight > 0

    def teardown(self) -> None:
        if not hasattr(self, "bench"):
            return
        for trial in list(self.open):
            self.end(trial, "cancelled")
        assert set(self.bench.router.in_flight().values()) <= {0}
        self.nobody_starves()

    def nobody_starves(self) -> None:
        """In peace again, everybody who is in service gets something, for good."""
        self.bench.update(*NAMES)
        chosen: Counter[str] = Counter()
        for _ in range(4):
            self.bench.now_s += 200
            chosen.clear()
            for _ in range(100):
                name = self.bench.choose()
                chosen[name] += 1
                self.bench.answer(name, took_s=1.0)
        assert chosen.keys() == set(NAMES)


TestRouting = Routing.TestCase
# Without shrinking, which takes minutes here: add Phase.shrink to look into a failure.
TestRouting.settings = settings(
    max_examples=40,
    stateful_step_count=40,
    deadline=None,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)
