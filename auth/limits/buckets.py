"""Decides what a token bucket allows, in memory: one worker's share of a limit while the store is away."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ..model import Decision, RequestLimit


class LocalBuckets:
    """At most `capacity` buckets, the least recently used forgotten first (it is likely full by then anyway).

    A bucket is one number: the moment at which it is full again (`now` is a monotonic clock in seconds).
    The script of the shared buckets does the same sums on the store's clock.
    """

    def __init__(self, *, now: Callable[[], float], capacity: int = 10_000) -> None:
        self._now = now
        self._capacity = capacity
        self._full_at_s: OrderedDict[str, float] = OrderedDict()

    def __len__(self) -> int:
        return len(self._full_at_s)

    def take(self, bucket: str, limit: RequestLimit, *, cost: int = 1, is_local: bool = False) -> Decision:
        now = self._now()
        empty_s = limit.burst / limit.rate_per_s  # from empty to full
        missing_s = min(max(self._full_at_s.get(bucket, now) - now, 0.0), empty_s)
        wanted_s = missing_s + cost / limit.rate_per_s
        # The millionth of a second allows for rounding: `burst` requests at one moment must all fit.
        is_allowed = wanted_s <= empty_s + 1e-6
        if is_allowed:
            missing_s = wanted_s
            self._full_at_s[bucket] = now + missing_s
            self._full_at_s.move_to_end(bucket)
            if len(self._full_at_s) > self._capacity:
                self._full_at_s.popitem(last=False)
        return Decision(
            is_allowed=is_allowed,
            limit=limit.burst,
            remaining=max(0, int((empty_s - missing_s) * limit.rate_per_s + 1e-6)),
            reset_s=missing_s,
            retry_after_s=0.0 if is_allowed else wanted_s - empty_s,
            is_local=is_local,
        )
