"""Decides how what people said is sealed before it goes into a store, and opened when it comes back.

AES-256-GCM. The sealing key of each place (a partition, a space) is derived from the deployment's, so that the random
nonces of one key never come near the number at which two could be equal, and nothing can be moved to another place.
What stays readable beside a sealed body (its header) is authenticated with it.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Callable, Sequence
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEY_ID_BYTES = 4
_NONCE_BYTES = 12
PLAIN = bytes(_KEY_ID_BYTES)  # the key id of what is not sealed
KEY_BYTES = 32


class Unsealable(ValueError):
    """Sealed with a key that is not known here, altered, of another place, or not sealed where all has to be."""


class Seal(Protocol):
    """`refused` counts what could not be opened."""

    @property
    def refused(self) -> int: ...

    def seal(self, body: bytes, *, place: bytes, header: bytes) -> bytes: ...

    def open(self, sealed: bytes, *, place: bytes, header: bytes) -> bytes:
        """Raises `Unsealable`."""
        ...


class Unsealed:
    """For a store that is trusted with what it holds."""

    def __init__(self) -> None:
        self.refused = 0  # what another sealed

    def seal(self, body: bytes, *, place: bytes, header: bytes) -> bytes:
        return PLAIN + body

    def open(self, sealed: bytes, *, place: bytes, header: bytes) -> bytes:
        if not sealed.startswith(PLAIN):
            self.refused += 1
            raise Unsealable("sealed, and no key is configured")
        return sealed[_KEY_ID_BYTES:]


class AesGcmSeal:
    """The first key seals, all open: a new key is put first, and the old one dropped once its entries are past.

    `refused` counts what could not be opened: keys that are missing, or somebody who writes into the store.
    """

    def __init__(self, keys: Sequence[bytes], *, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        """`keys` have 32 random bytes each. Raises ValueError."""
        if not keys or any(len(key) != KEY_BYTES for key in keys):
            raise ValueError(f"a sealing key has {KEY_BYTES} bytes; found {[len(key) for key in keys]}")
        self.refused = 0
        self._keys = {_key_id(key): key for key in keys}
        self._first = _key_id(keys[0])
        self._random_bytes = random_bytes

    def __repr__(self) -> str:
        return f"AesGcmSeal(seals with {self._first.hex()}, opens {len(self._keys)}, refused {self.refused})"

    def seal(self, body: bytes, *, place: bytes, header: bytes) -> bytes:
        nonce = self._random_bytes(_NONCE_BYTES)
        sealed = _cipher(self._keys[self._first], place).encrypt(nonce, body, header)
        return self._first + nonce + sealed

    def open(self, sealed: bytes, *, place: bytes, header: bytes) -> bytes:
        key = self._keys.get(sealed[:_KEY_ID_BYTES])
        nonce, body = sealed[_KEY_ID_BYTES:][:_NONCE_BYTES], sealed[_KEY_ID_BYTES + _NONCE_BYTES :]
        if key is None or len(nonce) < _NONCE_BYTES:
            self.refused += 1
            raise Unsealable("not sealed with a key that is known here")
        try:
            return _cipher(key, place).decrypt(nonce, body, header)
        except InvalidTag as error:
            self.refused += 1
            raise Unsealable("altered, or of another place") from error


def _key_id(key: bytes) -> bytes:
    """Tells keys apart and says nothing of them. Never that of what is not sealed."""
    return hmac.digest(key, b"key id", "sha256")[: _KEY_ID_BYTES - 1] + b"\1"


def _cipher(key: bytes, place: bytes) -> AESGCM:
    return AESGCM(hmac.digest(key, b"seal\0" + place, "sha256"))
