"""Takes apart what must match exactly, each part as a digest: two requests can be compared, neither can be read."""

from __future__ import annotations

import hmac

import msgspec

from ..body import Json, canonical

_BYTES = 6  # enough to tell two apart, under the deployment's secret


def parts_of(material: bytes, *, secret: bytes) -> dict[str, bytes]:
    """`material` is a plan's. Names such as `revision`, `fields.temperature`, `messages.0`."""
    members: dict[str, Json] = msgspec.json.decode(material)
    fields = members.pop("fields", None)
    turns = {name: members.pop(name, None) for name in ("messages", "input")}
    parts: dict[str, Json] = dict(members)
    if isinstance(fields, dict):
        parts |= {f"fields.{name}": value for name, value in fields.items()}
    for name, items in turns.items():
        if isinstance(items, list):
            parts |= {f"{name}.{at}": item for at, item in enumerate(items)}
    return {name: _digest(value, secret) for name, value in sorted(parts.items())}


def _digest(value: Json, secret: bytes) -> bytes:
    return hmac.digest(secret, b"part\0" + canonical(value).encode(), "sha256")[:_BYTES]
