"""Sums over the last stretch of time, in a bounded number of slices."""

from __future__ import annotations

from collections import deque


class Window:
    """Two sums over the last `span_s` seconds, exact to a slice: what was noted, and how much it came to.

    Moments are given, so that it works on any clock; they must not go back by more than a slice.
    """

    def __init__(self, *, span_s: float, slices: int) -> None:
        self._slice_s = span_s / slices
        self._slices: deque[list[float]] = deque(maxlen=slices)  # [number of the slice, count, amount]
        self._span = slices
        self._count = 0.0
        self._amount = 0.0

    def note(self, now_s: float, amount: float = 0.0) -> None:
        self._forget(now_s)
        number = now_s // self._slice_s
        if not self._slices or self._slices[-1][0] < number:
            self._slices.append([number, 0.0, 0.0])
        last = self._slices[-1]
        last[1] += 1
        last[2] += amount
        self._count += 1
        self._amount += amount

    def count(self, now_s: float) -> float:
        self._forget(now_s)
        return self._count

    def amount(self, now_s: float) -> float:
        self._forget(now_s)
        return self._amount

    def clear(self) -> None:
        self._slices.clear()
        self._count = self._amount = 0.0

    def _forget(self, now_s: float) -> None:
        oldest = now_s // self._slice_s - self._span
        while self._slices and self._slices[0][0] <= oldest:
            _, count, amount = self._slices.popleft()
            self._count -= count
            self._amount -= amount
        if not self._slices:
            self._count = self._amount = 0.0  # rounding does not add up over the years
