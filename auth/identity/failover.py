"""Decides what of this process's changes to make again when the store, after a failover, has lost them.

Only what takes something away from somebody: a disabled or deleted key, a new secret, a lower limit, a narrower
policy. And only where the store shows what was replaced here, so that what others have changed since stays theirs.
"""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, cast

from ..errors import KeysUnavailable
from ..limits.model import Limits
from ..model import KeyRecord, OldSecret, Policy, R, Record, Ref
from .allow import is_allowed

_KEPT_S = 600.0
_KEPT_RECORDS = 1_000
_KEPT_STATES = 32


@dataclass(slots=True)
class History:
    """What this process saw of a record and made of it, in order; the last is what it wrote, None: deleted it."""

    changed_at_s: float
    states: list[Record | None] = field(default_factory=list)


class KeptWrites:
    """The changes of the last ten minutes, of at most a thousand records. `now` is a monotonic clock."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._histories: OrderedDict[Ref[Any], History] = OrderedDict()

    def __len__(self) -> int:
        return len(self._histories)

    def add(self, ref: Ref[R], before: R, after: R | None) -> None:
        history = self._histories.pop(ref, None) or History(0.0)
        if not history.states or history.states[-1] != before:
            history.states.append(before)
        history.states.append(after)
        del history.states[:-_KEPT_STATES]
        history.changed_at_s = self._now()
        self._histories[ref] = history
        if len(self._histories) > _KEPT_RECORDS:
            self._histories.popitem(last=False)

    def forget(self, ref: Ref[Any]) -> None:
        self._histories.pop(ref, None)

    def recent(self) -> list[tuple[Ref[Any], Sequence[Record | None]]]:
        oldest_s = self._now() - _KEPT_S
        while self._histories and next(iter(self._histories.values())).changed_at_s < oldest_s:
            self._histories.popitem(last=False)
        return [(ref, tuple(history.states)) for ref, history in self._histories.items()]


def tightened(ours: Record, replaced: Sequence[Record], current: R) -> R:
    """What the store shows, but as strict as `ours` where it shows what was `replaced` by it."""
    was_enabled = any(each.disabled_at_s is None for each in replaced)
    if ours.disabled_at_s is not None and current.disabled_at_s is None and was_enabled:
        current = replace(current, disabled_at_s=ours.disabled_at_s)
    if is_lower(ours.limits, current.limits) and any(each.limits == current.limits for each in replaced):
        current = replace(current, limits=ours.limits)
    if is_narrower(ours.policy, current.policy) and any(each.policy == current.policy for each in replaced):
        current = replace(current, policy=ours.policy)
    return _key_tightened(ours, replaced, current)


def _key_tightened(ours: Record, replaced: Sequence[Record], current: R) -> R:
    """The secrets and the end, which only keys have."""
    if not isinstance(current, KeyRecord) or not isinstance(ours, KeyRecord):
        return current
    strict: KeyRecord = current
    keys = [each for each in replaced if isinstance(each, KeyRecord)]
    if any(_secrets(each) == _secrets(strict) for each in keys):
        strict = replace(strict, secret_sha256=ours.secret_sha256, old_secret=ours.old_secret)
    if _end_s(ours) < _end_s(strict) and any(_end_s(each) == _end_s(strict) for each in keys):
        strict = replace(strict, expires_at_s=ours.expires_at_s)
    return cast(R, strict)


def _end_s(record: KeyRecord) -> float:
    return math.inf if record.expires_at_s is None else record.expires_at_s


def _secrets(record: KeyRecord) -> tuple[bytes, OldSecret | None]:
    return record.secret_sha256, record.old_secret


def is_lower(one: Limits, other: Limits) -> bool:
    """Whether `one` limits anything that `other` does not limit as much."""
    pairs: list[tuple[float | None, float | None]] = [
        (one.requests_per_s, other.requests_per_s),
        (one.burst, other.burst),
        (one.requests_per_min, other.requests_per_min),
        (one.tokens_per_min, other.tokens_per_min),
        (one.concurrent, other.concurrent),
    ]
    if one.budget is not None:
        is_like = other.budget is not None and (one.budget.unit, one.budget.period) == (
            other.budget.unit,
            other.budget.period,
        )
        pairs.append(
            (one.budget.amount, other.budget.amount if other.budget is not None and is_like else None)
        )
    return any(mine is not None and (theirs is None or mine < theirs) for mine, theirs in pairs)


def is_narrower(one: Policy, other: Policy) -> bool:
    """Whether `other` allows a model, a scope or a sharing that `one` does not. What is inherited counts as all."""
    if one.models is not None and not all(is_allowed(one.models, each) for each in other.models or ("*",)):
        return True
    if one.scopes is not None and (other.scopes is None or other.scopes - one.scopes):
        return True
    return one.shared_pool is False and other.shared_pool is not False


class Reapplying(Protocol):
    async def reapply(self) -> Sequence[Ref[Any]]: ...


async def reapply_after_failovers(
    directory: Reapplying,
    *,
    server_id: Callable[[], str | None],
    on_reapplied: Callable[[Sequence[Ref[Any]]], Awaitable[None]],
    every_s: float = 0.25,
) -> None:
    """Whenever the store is another one than before, see to it that it is as strict; until cancelled.

    `server_id` names the server that answers now, None while none does. `on_reapplied` gets what had to be
    made again, to tell those who cache it.
    """
    known = server_id()
    while True:
        await asyncio.sleep(every_s)
        present = server_id()
        if present is None or present == known:
            continue
        try:
            refs = await directory.reapply()
        except KeysUnavailable:  # gone again: the same question comes up when it is back
            continue
        known = present
        if refs:
            await on_reapplied(refs)
