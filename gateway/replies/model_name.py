"""Puts the public name of a model where a server wrote its own, and leaves every other byte as it was."""

from __future__ import annotations

import re

import msgspec

_member = re.compile(rb'("model"\s*:\s*)"(?:[^"\\]|\\.)*"').search
_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def renamed(document: bytes, model: str | None) -> bytes:
    """A JSON object with this `model` (None: its own), where it has one. Raises msgspec.DecodeError if it is none."""
    if model is None:
        return document
    name = msgspec.json.encode(model)
    found = _member(document)
    if (
        found is not None and _member(document, found.end()) is None
    ):  # within a text its quotes would be escaped
        return document[: found.end(1)] + name + document[found.end() :]
    members = _read_members(document)
    if "model" not in members:
        return document
    named = {**members, "model": msgspec.Raw(name)}
    return b"{" + b",".join(b"%s:%s" % (msgspec.json.encode(key), raw) for key, raw in named.items()) + b"}"
