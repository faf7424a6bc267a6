"""What each endpoint that generates text has of its own; whoever serves requests needs to know nothing else of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from backends import encode

from ..answers import Reading, StreamReader
from ..body import Json
from ..errors import ApiError

DONE = encode(b"[DONE]")


class Fuzzy(msgspec.Struct, frozen=True):
    """The one text of a request that may be matched by meaning, and where it stands."""

    text: str
    place: Json
    skip: str | None  # why it must not be, if so


class Asked(msgspec.Struct, frozen=True):
    """A request's question, and what stands around it, which must match exactly."""

    fuzzy: Fuzzy
    rest: Json
    bypass: str | None = None  # why the cache must be left out altogether, if so


class Fresh(msgspec.Struct, frozen=True):
    """What each reply has of its own. `echo` are members of the request that the reply repeats."""

    id: str
    created: int
    echo: Mapping[str, Json] = msgspec.field(default_factory=dict)

    @classmethod
    def made(cls, *, now_s: float, echo: Mapping[str, Json] | None = None) -> Fresh:
        id_ = random.randbytes(12).hex()  # noqa: S311 - to be unique, not to be secret
        return cls(id=id_, created=int(now_s), echo=echo or {})


def in_one(text: str) -> list[str]:
    return [text]


@dataclass(frozen=True, slots=True)
class Manner:
    """How a stored answer is told as a stream. `pieces` says where a text may be parted."""

    include_usage: bool = False
    wants_running_usage: bool = False
    pieces: Callable[[str], list[str]] = in_one


@dataclass(frozen=True, slots=True)
class Dialect:
    """One endpoint. `endpoint` is part of every partition: what is asked here is never answered from elsewhere.

    `question` is the body's member that holds it. `ask` raises InvalidRequest where the gateway cannot read that.
    `read_json` raises NotAnAnswer. `reader` is given the model's name that callers shall read, where it is not the
    server's own. `as_json` and `as_stream` take a stored payload; frames are encoded events, the ending included.
    """

    endpoint: str
    path: str
    operation: str  # OpenTelemetry's word for it
    question: str
    ask: Callable[[Mapping[str, Json]], Asked]
    read_json: Callable[[bytes], Reading]
    reader: Callable[[str | None], StreamReader]
    as_json: Callable[[bytes, Fresh], bytes]
    as_stream: Callable[[bytes, Fresh, Manner], Iterator[bytes]]
    as_error: Callable[[ApiError], bytes] = lambda error: encode(error.body())
    has_usage_option: bool = True  # usage on streams is asked for by stream_options.include_usage
    ending: tuple[bytes, ...] = (DONE,)
    echoed: tuple[str, ...] = ()
    output_limit: str | None = (
        None  # the body's bound on output tokens, where no reply tells that it was reached
    )

    def echo(self, values: Mapping[str, Json]) -> Mapping[str, Json]:
        return {name: values[name] for name in self.echoed if values.get(name) is not None}
