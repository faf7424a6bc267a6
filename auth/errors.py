"""Why a request has no principal.

AuthError
├── MissingKey           no key was sent
├── ConflictingKeys      two headers carry different keys
├── InvalidKey           not a key of ours, unknown, revoked, or the secret differs
└── KeysUnavailable      the store cannot be asked and this worker has not seen the key lately
    └── UnreadableRecord   the store holds a key in a format that this release does not know
"""

from __future__ import annotations


class AuthError(Exception):
    """Base of all errors of this package. The message is safe to show to the caller."""


class MissingKey(AuthError):
    pass


class ConflictingKeys(AuthError):
    pass


class InvalidKey(AuthError):
    pass


class KeysUnavailable(AuthError):
    pass


class UnreadableRecord(KeysUnavailable):
    pass
