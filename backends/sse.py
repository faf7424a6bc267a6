"""Server-sent events as bytes in and events out, with no I/O: a parser for any chunking, and an encoder.

Events without data say nothing to an OpenAI client and are dropped, comments too. Bytes stay bytes: a character
split between two chunks is whole again in the event.
"""

from __future__ import annotations

from typing import NamedTuple

DONE = b"[DONE]"

_BOM = b"\xef\xbb\xbf"


class Event(NamedTuple):
    data: bytes
    event: str | None = None


class EventTooLarge(ValueError):
    """An event is larger than the parser was told to hold."""


class Parser:
    """Feed it bytes as they come. Holds at most `max_event_bytes` plus one chunk.

    Raises `EventTooLarge` from `feed`; the parser is of no use afterwards.
    """

    def __init__(self, *, max_event_bytes: int = 4 << 20) -> None:
        self._max_event_bytes = max_event_bytes
        self._buffer = bytearray()  # the beginning of a block that is not complete yet, with LF line ends
        self._ended_with_cr = False
        self._is_first_block = True

    def feed(self, data: bytes) -> list[Event]:
        """The events that these bytes complete."""
        if b"\r" in data or self._ended_with_cr:
            data = self._with_lf(data)
        blocks = self._complete_blocks(data)
        return [] if blocks is None else self._events(blocks)

    def close(self) -> list[Event]:
        """The last event, when the stream ended without the blank line that would have completed it."""
        block, self._buffer = bytes(self._buffer), bytearray()
        return self._events(block)

    def _with_lf(self, data: bytes) -> bytes:
        # A CR at the end of a chunk ends its line now; an LF that follows in the next chunk belongs to it.
        if self._ended_with_cr and data.startswith(b"\n"):
            data = data[1:]
            if not data:
                self._ended_with_cr = False
                return data
        self._ended_with_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _complete_blocks(self, data: bytes) -> bytes | None:
        """Everything up to the last blank line; the rest is kept."""
        if not self._buffer and data.endswith(b"\n\n"):  # by far the most common: a chunk is an event
            return data[:-2]
        # The blank line may lie across the border of what was kept and what came.
        start = max(len(self._buffer) - 1, 0)
        self._buffer += data
        end = self._buffer.rfind(b"\n\n", start)
        if end < 0:
            self._check_size(len(self._buffer))
            return None
        blocks = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        self._check_size(len(self._buffer))
        return blocks

    def _events(self, blocks: bytes) -> list[Event]:
        if self._is_first_block:
            self._is_first_block = False
            blocks = blocks.removeprefix(_BOM)
        if len(blocks) > self._max_event_bytes:
            self._check_size(max(map(len, blocks.split(b"\n\n"))))
        events = []
        for block in blocks.split(b"\n\n"):
            if block.startswith(b"data: ") and b"\n" not in block:  # what model servers send
                if len(block) > 6:
                    events.append(Event(block[6:]))
            elif (event := _parse(block)) is not None:
                events.append(event)
        return events

    def _check_size(self, size: int) -> None:
        if size > self._max_event_bytes:
            raise EventTooLarge(f"an event is longer than {self._max_event_bytes} bytes")


def encode(data: bytes) -> bytes:
    """One event; data with line ends becomes several `data:` lines, as the format asks."""
    if b"\n" in data or b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return b"data: " + data + b"\n\n"


def _parse(block: bytes) -> Event | None:
    data: list[bytes] = []
    name: str | None = None
    for line in block.split(b"\n"):
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode("utf-8", "replace") or None
    joined = b"\n".join(data)
    return Event(joined, name) if joined else None
