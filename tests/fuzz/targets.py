"""What is fuzzed: functions of bytes from outside, each of which may raise nothing but its own errors.

They are shared by the quick suite (hypothesis) and `make fuzz` (atheris).
"""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterable

from backends.sse import Event, Parser, encode
from gateway.body import split
from gateway.data.compression import choose
from gateway.data.decompression import decompressed
from gateway.data.paths import canonical
from gateway.errors import ApiError, InvalidRequest
from gateway.replies.upstream_errors import normalise

Target = Callable[[bytes], None]

_LINE_END = re.compile(rb"\r\n|\r|\n")


def by_the_standard(stream: bytes) -> list[Event]:
    """Server-sent events as the standard describes them, line by line, but for two things: events without data are
    dropped, and the last event needs no blank line."""
    events: list[Event] = []
    data: list[bytes] = []
    name: bytes = b""
    for line in [*_LINE_END.split(stream.removeprefix(b"\xef\xbb\xbf")), b""]:
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if not line:
            if joined := b"\n".join(data):
                events.append(Event(joined, name.decode("utf-8", "replace") or None))
            data, name = [], b""
        elif field == b"data":
            data.append(value)
        elif field == b"event":
            name = value
    return events


def parsed(chunks: Iterable[bytes]) -> list[Event]:
    parser = Parser()
    return [event for chunk in chunks for event in parser.feed(chunk)] + parser.close()


def sse(data: bytes) -> None:
    """The first bytes say where the rest is cut."""
    count = data[0] % 16 if data else 0
    cuts, stream = data[1 : 1 + count], data[1 + count :]
    edges = [0, *sorted(cut * len(stream) // 256 for cut in cuts), len(stream)]
    events = parsed(stream[start:end] for start, end in itertools.pairwise(edges))
    assert events == by_the_standard(stream)
    again = parsed([b"".join(encode(event.data) for event in events)])
    assert [event.data for event in again] == [event.data for event in events]


def body(data: bytes) -> None:
    try:
        found = split(data)
    except InvalidRequest as error:
        json.loads(error.body())
        return
    assert json.loads(found.joined({})) == json.loads(data)


def errors(data: bytes) -> None:
    error = normalise(400 + data[0] if data else 500, data[1:])
    assert json.loads(error.body())["error"].keys() == {"message", "type", "param", "code"}
    assert 400 <= error.status <= 599


def encodings(data: bytes) -> None:
    choose(data)
    canonical(data.decode("latin-1"), ("/v1/chat/completions", "/v1/completions"))
    for coding in ("gzip", "deflate", "br", "zstd"):
        try:
            unpacked = asyncio.run(decompressed(data, coding, limit_bytes=1 << 16))
        except ApiError:
            continue
        assert len(unpacked) <= 1 << 16


TARGETS: dict[str, Target] = {"sse": sse, "body": body, "errors": errors, "encodings": encodings}
