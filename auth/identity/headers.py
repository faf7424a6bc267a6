"""Decides which key a request presents, from its raw headers."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ConflictingKeys, InvalidKey, MissingKey

_MAX_KEY_BYTES = 256
_PLAIN_HEADERS = (b"x-api-key", b"api-key")
_KEY_HEADERS = frozenset((b"authorization", *_PLAIN_HEADERS))

_EXPECTED = "Send your Echogate key as 'Authorization: Bearer <key>' or 'X-API-Key: <key>'."


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """The one key in `Authorization: Bearer`, `X-API-Key` or `api-key` (lower-case names, as in ASGI).

    Several of these headers may carry the same key; each may come only once. The key is at most 256 ASCII
    bytes; whether it exists is not decided here.
    """
    found: dict[bytes, bytes] = {}
    for name, value in headers:
        if name in _KEY_HEADERS:
            if name in found:
                raise InvalidKey(f"The header '{name.decode()}' came more than once. {_EXPECTED}")
            found[name] = value
    if not found:
        raise MissingKey(f"No key was sent. {_EXPECTED}")
    keys = {_bearer(value) if name == b"authorization" else value.strip() for name, value in found.items()}
    if len(keys) > 1:
        raise ConflictingKeys(f"The key headers carry different keys. {_EXPECTED}")
    key = keys.pop()
    if not key:
        raise MissingKey(f"The key is empty. {_EXPECTED}")
    if len(key) > _MAX_KEY_BYTES or not key.isascii():
        raise InvalidKey(f"This is not an Echogate key. {_EXPECTED}")
    return key


def _bearer(value: bytes) -> bytes:
    """The credential after the scheme, whose case does not matter."""
    scheme, _, key = value.partition(b" ")
    if scheme.lower() != b"bearer":
        raise InvalidKey(f"The Authorization header has another scheme than Bearer. {_EXPECTED}")
    return key
