"""Decides whether a process has seen all of a shard's stream, and when it has not. Pure.

A stream counts what was ever added to it, and a trimmed one goes on counting. So whoever counts what it reads can tell
at any item of which it knows the number: with another number there, something was trimmed before it was read, or the
stream is another one by now (the store was emptied, or a replica that lagged took over). It does not tell two such
faults between two looks that make up for one another to the item; then an index lacks some, until they expire.
"""

from __future__ import annotations

from typing import Literal

import msgspec

BEGINNING = b"0-0"

Why = Literal["behind", "reset"]


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Up to where a stream was read: the last item's id, and how many were ever added up to it."""

    item_id: bytes = BEGINNING
    count: int = 0


class End(msgspec.Struct, frozen=True):
    """What a stream says of itself: its last item, how many were ever added, and how many of them it still has."""

    item_id: bytes = BEGINNING
    count: int = 0
    length: int = 0

    @property
    def place(self) -> Place:
        return Place(self.item_id, self.count)


class Trail:
    """A reader's way along one stream."""

    def __init__(self, place: Place) -> None:
        self.item_id = place.item_id
        self._count = place.count
        self._ahead: End | None = None
        self.behind = 0  # items, when the end was looked at last

    @property
    def place(self) -> Place:
        return Place(self.item_id, self._count)

    @property
    def is_behind(self) -> bool:
        """Behind the end as it was when it was looked at."""
        return self._ahead is not None

    def look_at(self, end: End) -> Why | None:
        """Why this trail leads nowhere; None where nothing speaks against it yet."""
        here, there = moment(self.item_id), moment(end.item_id)
        if there < here or end.count < self._count or (there > here) != (end.count > self._count):
            return "reset"
        if end.count - end.length > self._count:
            return "behind"
        self._ahead = end if there > here else None
        self.behind = end.count - self._count
        return None

    def step(self, item_id: bytes) -> Why | None:
        """An item was read."""
        self.item_id = item_id
        self._count += 1
        ahead = self._ahead
        if ahead is None or moment(item_id) < moment(ahead.item_id):
            return None
        self._ahead = None
        return None if (item_id, self._count) == (ahead.item_id, ahead.count) else "behind"


def moment(item_id: bytes) -> tuple[int, int]:
    """An item's time in ms, by the store's clock, and its number within it."""
    milliseconds, _, number = item_id.partition(b"-")
    return int(milliseconds), int(number)
