"""A batch of texts to embed, and the reply to it put together from stored and new vectors. Pure.

A vector is kept as float32, little-endian, whichever form it came in; each reply has the form that was asked for.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from ..body import Json, canonical
from ..errors import InvalidRequest

MOST_INPUTS = 2048  # OpenAI's own bound


@dataclass(frozen=True, slots=True)
class Batch:
    """`inputs` are texts or lists of token ids, as far as nobody has looked at them closer (`names`)."""

    inputs: tuple[Json, ...]
    wants_base64: bool

    def names(self) -> Iterator[str]:
        """What each input is known by: a digest, so that nothing makes two of them alike but being the same.

        Raises InvalidRequest at one that cannot be embedded.
        """
        for at, each in enumerate(self.inputs):
            if not (isinstance(each, str) or _is_tokens(each)) or not each:
                raise InvalidRequest(
                    f"input.{at} must be a text or a list of token ids, and not empty.", param=f"input.{at}"
                )
            yield hashlib.sha256(canonical(each).encode("utf-8", "surrogatepass")).hexdigest()


class Replied(msgspec.Struct):
    """What a model server sent: its members, those of each embedding unread yet, and what it counted."""

    members: dict[str, msgspec.Raw]
    data: list[msgspec.Raw]
    tokens: int

    def vectors(self) -> Iterator[tuple[int, bytes]]:
        """The place of each among the inputs, and its bytes. Raises ValueError where one is no vector."""
        for raw in self.data:
            try:
                each = _read_embedding(raw)
            except msgspec.DecodeError as error:
                raise ValueError("not an embedding") from error
            yield each.index, _as_bytes(each.embedding)


def read_batch(values: Mapping[str, Json]) -> Batch:
    """Raises InvalidRequest."""
    form = values.get("encoding_format")
    if form not in (None, "float", "base64"):
        raise InvalidRequest("encoding_format must be float or base64.", param="encoding_format")
    asked = values.get("input")
    inputs = [asked] if isinstance(asked, str) or _is_tokens(asked) else asked
    if not isinstance(inputs, list) or not inputs:
        raise InvalidRequest("input must be a text, a list of texts, or a list of token ids.", param="input")
    if len(inputs) > MOST_INPUTS:
        raise InvalidRequest(f"input has {len(inputs)} items; send {MOST_INPUTS} at most.", param="input")
    return Batch(tuple(inputs), form == "base64")


def read_reply(body: bytes) -> Replied | None:
    """None where it has no list of data: then it is only passed on. Raises msgspec.DecodeError if it is no object."""
    members = _read_members(body)
    try:
        usage = _read_usage(members["usage"]) if "usage" in members else _Usage()
        return Replied(members, _read_data(members["data"]), usage.prompt_tokens or usage.total_tokens or 0)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
        return None


def in_order(vectors: Sequence[tuple[int, bytes]], *, count: int) -> list[bytes] | None:
    """None where they are not one for each of so many inputs."""
    placed = dict(vectors)
    return (
        [placed[at] for at in range(count)]
        if len(vectors) == count and set(placed) == {*range(count)}
        else None
    )


def written(vectors: Sequence[bytes], batch: Batch) -> Iterator[bytes]:
    """The data of a reply, one embedding after the other."""
    for at, vector in enumerate(vectors):
        yield msgspec.json.encode({"object": "embedding", "index": at, "embedding": _as_asked(vector, batch)})


def as_reply(data: Sequence[bytes], *, model: str, tokens: int, members: Mapping[str, msgspec.Raw]) -> bytes:
    """`members` are those of a server's own reply, whose data and usage give way to the whole batch's."""
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    told = {"object": "list", **members, "model": model, "usage": usage}
    told["data"] = msgspec.Raw(b"[" + b",".join(data) + b"]")
    return msgspec.json.encode(told)


def shares(tokens: int, inputs: Sequence[Json]) -> list[int]:
    """Of a count that is known for several inputs together, what each is taken to be of it, by length. They add up."""
    sizes = [len(each) if isinstance(each, str | list) else 1 for each in inputs]
    total, given, passed, found = sum(sizes), 0, 0, []
    for size in sizes:
        passed += size
        upto = round(tokens * passed / total)
        found.append(upto - given)
        given = upto
    return found


def _is_tokens(value: Json) -> bool:
    return (
        isinstance(value, list) and bool(value) and {*map(type, value)} == {int}  # a bool's type is another
    )


def _as_bytes(embedding: list[float] | str) -> bytes:
    """Raises ValueError."""
    if isinstance(embedding, str):
        try:
            raw = base64.b64decode(embedding, validate=True)
        except binascii.Error as error:
            raise ValueError("not base64") from error
        vector = np.frombuffer(raw, dtype="<f4")  # refuses what is no multiple of 4
    else:
        with np.errstate(over="ignore"):  # what is too large is not finite then
            vector = np.asarray(embedding, dtype="<f4")
    if not vector.size or not np.isfinite(vector).all():
        raise ValueError("empty, or not finite")
    return vector.tobytes()


def _as_asked(vector: bytes, batch: Batch) -> Any:
    return (
        base64.b64encode(vector).decode()
        if batch.wants_base64
        else np.frombuffer(vector, dtype="<f4").tolist()
    )


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float] | str


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    total_tokens: int | None = None


_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_data = msgspec.json.Decoder(list[msgspec.Raw]).decode
_read_embedding = msgspec.json.Decoder(_Embedding).decode
_read_usage = msgspec.json.Decoder(_Usage).decode
