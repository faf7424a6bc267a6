"""A limiter over a store in memory, and callers to be limited."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from auth import Budget, Grant, LevelLimits, Limiter, Limits, Refusal, StorePolicy
from auth.testing import MemoryLimits


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@dataclass(frozen=True)
class Caller:
    limits: tuple[LevelLimits, ...]
    key_id: str = "abc"
    tenant: str = "acme"


def caller(key_id: str = "abc", **limits: int | float | Budget) -> Caller:
    return Caller((LevelLimits("key", key_id, Limits(**limits)),), key_id)  # type: ignore[arg-type] # as in Limits


@dataclass
class Parts:
    """A limiter over a store in memory, both on one clock."""

    policy: StorePolicy = "local"
    workers: int = 1
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.store = MemoryLimits(now=self.clock)
        self.limiter = Limiter(
            self.store, live_workers=lambda: self.workers, policy=self.policy, now=self.clock
        )

    async def grant(self, who: Caller, *, tokens: int = 0, cost: float = 0) -> Grant:
        answer = await self.limiter.take(who, tokens=tokens, cost=cost)
        assert isinstance(answer, Grant)
        return answer

    async def refusal(self, who: Caller, *, tokens: int = 0, cost: float = 0) -> Refusal:
        answer = await self.limiter.take(who, tokens=tokens, cost=cost)
        assert isinstance(answer, Refusal)
        return answer

    async def passed(self, who: Caller, times: int, *, tokens: int = 0, cost: float = 0) -> int:
        answers = [await self.limiter.take(who, tokens=tokens, cost=cost) for _ in range(times)]
        return sum(isinstance(answer, Grant) for answer in answers)

    async def left(self, who: Caller) -> list[float]:
        return [limit.remaining for limit in await self.limiter.look(who.tenant, who.limits)]


class Counting(MemoryLimits):
    def __init__(self) -> None:
        super().__init__(lease_s=0.15)
        self.renewals: list[Mapping[str, Sequence[str]]] = []

    async def renew(self, leases: Mapping[str, Sequence[str]]) -> None:
        self.renewals.append(leases)
        await super().renew(leases)
