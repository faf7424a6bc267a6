"""A JSON body, split once: raw slices for sending on, parsed values for deciding.

What is hashed is what is sent. One parser finds both the value of each top-level member and the exact text it
was written as, so no difference between two parsers can make the cache answer for a request the backend never
saw. Anything that two parsers could read differently is refused here: duplicate keys at any depth, NaN and
Infinity, numbers beyond a double, lone surrogates, invalid UTF-8; and what no honest chat needs: too many values, and
values too deep in one another.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Callable, Mapping
from json.decoder import JSONDecodeError, JSONDecoder
from typing import Any, NoReturn

import msgspec
import numpy as np

from .errors import InvalidRequest

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

_skip_space = re.compile(r"[ \t\n\r]*").match
# What stands between two values of an object, as far as one look tells: a plain name with its colon, and what follows.
_plain_name = re.compile(r'"([^"\\\x00-\x1f]*)"[ \t\n\r]*:[ \t\n\r]*').match
_after_value = re.compile(r"[ \t\n\r]*([,}])[ \t\n\r]*").match
# To read a million empty messages takes a second in which nobody else is served; no chat has that many values.
_MOST_VALUES = 200_000
# A larger body is read by a thread: many small values take 100 ms, in which the loop serves others.
_READ_AT_ONCE_BYTES = 128 * 1024
# Deeper than any schema of a tool; every step that goes through a body may then call itself.
_MOST_DEPTH = 256
_BRACKETS = b"[]{}"
_NO_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
# An escaped surrogate, perhaps alone: only then is the slower check worth its time.
_surrogate_escape = re.compile(r"\\u[dD][89a-fA-F]").search


class Body(msgspec.Struct, frozen=True):
    """The top-level members of a JSON object, in the order they were sent."""

    slices: dict[str, str]
    values: dict[str, Json]

    def joined(self, replacements: Mapping[str, str | None]) -> bytes:
        """The body as it was sent but for the named members: replaced, added at the end, or (None) left out."""
        members = {**self.slices, **replacements}
        return (
            "{"
            + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items() if text is not None)
            + "}"
        ).encode()


def split(raw: bytes, *, model: str | None = None) -> Body:
    """The members of the body; a `model` that the path names stands for the body's own, as at Azure.

    Raises `InvalidRequest` (400) that says what was found and where.
    """
    _refuse_shapes(raw)
    try:
        text = raw.decode()
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not UTF-8: invalid byte at position {error.start}.") from error
    try:
        body = _split_object(text)
    except JSONDecodeError as error:
        raise InvalidRequest(f"The body is not JSON: {error.msg} at position {error.pos}.") from error
    except StopIteration as error:
        raise InvalidRequest(f"The body is not JSON: expected a value at position {error.value}.") from error
    except ValueError as error:  # an integer with more digits than Python reads
        raise InvalidRequest("The body has a number that is too long.") from error
    if _surrogate_escape(text):
        _refuse_lone_surrogates(body)
    if model is not None:
        body.slices["model"], body.values["model"] = canonical(model), model
    return body


async def split_aside(raw: bytes, *, model: str | None = None) -> Body:
    """`split`, off the loop where it takes long."""
    if len(raw) <= _READ_AT_ONCE_BYTES:
        return split(raw, model=model)
    return await asyncio.to_thread(split, raw, model=model)


def canonical(value: Json) -> str:
    """Canonical JSON: sorted keys, no spaces, shortest numbers (the parser has made 1.0 and 1e0 into 1)."""
    return _encode(value).decode()


def _refuse_shapes(raw: bytes) -> None:
    """What would keep everybody else waiting while it is read. A look at the bytes rules most bodies out of it."""
    opened = raw.count(b"[") + raw.count(b"{")
    if opened > _MOST_DEPTH and _depth(raw) > _MOST_DEPTH:
        raise InvalidRequest(
            f"The body is nested too deeply: more than {_MOST_DEPTH} arrays and objects in one another.",
            code="nested_too_deeply",
        )
    if len(raw) <= _MOST_VALUES or opened + raw.count(b",") <= _MOST_VALUES:
        return
    outside = _outside_strings(raw)
    if outside.count(b"[") + outside.count(b"{") + outside.count(b",") > _MOST_VALUES:
        raise InvalidRequest(f"The body has more than {_MOST_VALUES} values.", code="too_many_values")


def _depth(raw: bytes) -> int:
    brackets = np.frombuffer(_outside_strings(raw).translate(None, _NO_BRACKETS), np.uint8)
    steps = 3 - (brackets & 6).astype(np.int8)  # of their codes these two bits differ: 1 opens, -1 closes
    return int(steps.cumsum(dtype=np.int64).max(initial=0))


def _outside_strings(raw: bytes) -> bytes:
    """What stands between the strings. Up to the first error of a body that is no JSON, beyond which nobody reads."""
    return b"".join(raw.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')[::2])


def _split_object(text: str) -> Body:
    slices: dict[str, str] = {}
    values: dict[str, Json] = {}
    at = _after_space(text, 0)
    if text[at : at + 1] != "{":
        raise InvalidRequest("The body must be a JSON object.")
    at = _after_space(text, at + 1)
    if text[at : at + 1] == "}":
        _require_end(text, at + 1)
        return Body(slices, values)
    while True:
        plain = _plain_name(text, at)
        name, start = (plain[1], plain.end()) if plain else _escaped_name(text, at)
        if name in slices:
            raise _duplicate(name)
        value, end = _scan(text, start)
        slices[name], values[name] = text[start:end], value
        after = _after_value(text, end)
        if after is None:
            raise JSONDecodeError("expected ',' or '}'", text, _after_space(text, end))
        at = after.end()
        if after[1] == "}":
            _require_end(text, at)
            return Body(slices, values)


def _escaped_name(text: str, at: int) -> tuple[str, int]:
    """A name that has to be read by the scanner (or is none at all), and where its value begins."""
    if text[at : at + 1] != '"':
        raise JSONDecodeError("expected a property name in double quotes", text, at)
    name, at = _scan(text, at)
    at = _after_space(text, at)
    if text[at : at + 1] != ":":
        raise JSONDecodeError("expected ':'", text, at)
    return name, _after_space(text, at + 1)


def _after_space(text: str, at: int) -> int:
    match = _skip_space(text, at)
    assert match is not None  # the pattern matches the empty string too
    return match.end()


def _require_end(text: str, at: int) -> None:
    at = _after_space(text, at)
    if at != len(text):
        raise JSONDecodeError("unexpected data after the object", text, at)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    members = dict(pairs)
    if len(members) != len(pairs):
        seen: set[str] = set()
        raise _duplicate(next(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
    return members


def _duplicate(name: str) -> InvalidRequest:
    return InvalidRequest(
        f"The body has the key {json.dumps(name[:64])} twice in one object.", code="duplicate_key"
    )


def _number(text: str) -> int | float:
    number = float(text)
    if math.isinf(number):
        raise InvalidRequest(f"The body has a number beyond the range of a double: {text[:32]}.")
    # 1.0 and 1e2 are the integers 1 and 100; beyond 2^53 a double no longer says which integer was meant.
    return int(number) if number.is_integer() and abs(number) < 2**53 else number


def _no_constant(name: str) -> NoReturn:
    raise InvalidRequest(f"The body is not JSON: {name} is not a JSON value.")


def _refuse_lone_surrogates(body: Body) -> None:
    try:
        canonical(body.values)
    except UnicodeEncodeError as error:
        place = _place_of_half_a_pair(body.values, "")
        raise InvalidRequest(
            f"The body has half of a surrogate pair (an unpaired \\ud800–\\udfff escape) in {place or 'a name'}.",
            param=place,
        ) from error


def _place_of_half_a_pair(value: Json, place: str) -> str | None:
    """Where a text with half a pair stands, as `messages.0.content`; None: it is the name of a member."""
    if isinstance(value, str):
        return place.removeprefix(".") if any("\ud800" <= letter <= "\udfff" for letter in value) else None
    members = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    places = (_place_of_half_a_pair(inner, f"{place}.{name}") for name, inner in members)
    return next((found for found in places if found is not None), None)


_decoder = JSONDecoder(object_pairs_hook=_unique, parse_float=_number, parse_constant=_no_constant)
# The decoder's own scanner also tells where a value ends.
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined] # not in the stubs
_encode = msgspec.json.Encoder(order="sorted").encode
