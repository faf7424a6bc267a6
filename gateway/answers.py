"""What a model server's reply comes to, whatever the dialect it is in: how it is passed on, kept and counted.

Only a complete, successful answer is worth keeping. What is kept is the reply's own members but for those that are
made anew each time (its `id` and the like), so one entry serves JSON and streams alike.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

Kind = Literal["text", "reasoning", "tool-calls", "refusal"]
_STRICTEST: tuple[Kind, ...] = ("tool-calls", "refusal", "reasoning")
# What an answer of a kind is kept for: similar questions too, the very question only, nothing.
Keeping = Literal["semantic", "exact", "off"]
KEEPING: Mapping[Kind, Keeping] = {
    "text": "semantic",
    "reasoning": "semantic",
    # What a tool is called with follows from the very words, and so does why somebody refuses.
    "tool-calls": "exact",
    "refusal": "exact",
}


def kind_of(parts: Collection[Kind]) -> Kind:
    """Of an answer with parts of several kinds."""
    return next((kind for kind in _STRICTEST if kind in parts), "text")


@dataclass(frozen=True, slots=True)
class Usage:
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reply came to. `reason` says why it must not be stored (None: it may)."""

    payload: bytes
    text: str
    usage: Usage | None
    kind: Kind
    reason: str | None


class NotAnAnswer(ValueError):
    """A 200 whose body is not an answer at all: an HTML page, `null`, half a document."""


class StreamBroken(ValueError):
    """An event that cannot be read, or an error in its place (then `body` is that error's)."""

    def __init__(self, reason: str, *, body: bytes = b"") -> None:
        super().__init__(reason)
        self.reason = reason
        self.body = body


class Frame(NamedTuple):
    """One event on its way to the callers: its bytes, and what is left of it without usage (None: nothing)."""

    data: bytes
    without_usage: bytes | None


class StreamReader(Protocol):
    """Puts a stream together again: `take` the data of each event, pass on what is `owed`, then `finish`."""

    @property
    def is_complete(self) -> bool:
        """Has the answer said by itself that it ended, and why?"""
        ...

    def take(self, data: bytes) -> Frame:
        """Raises StreamBroken."""
        ...

    def owed(self) -> list[Frame]:
        """What callers are still to get that the server did not send."""
        ...

    def finish(self) -> Reading: ...
