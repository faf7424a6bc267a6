"""What can go wrong in auth.

AuthError
├── MissingKey             no key was sent
├── ConflictingKeys        two headers carry different keys
├── InvalidKey             not a key of ours, unknown, deleted, or the secret differs
│   ├── DisabledKey          the key, its service or its tenant is disabled (told only to who has the secret)
│   └── ExpiredKey           the key, or the secret before its rotation, has ended (likewise)
├── LimitsUnavailable      the store cannot be asked, and nothing is let through without it (limiter policy `closed`)
├── KeysUnavailable        the store cannot be asked and this worker has not seen the key lately
│   └── UnreadableRecord     the store holds a record in a format that this release does not know
├── DirectoryError         an administrator asked for what cannot be
│   ├── NoSuchRecord         there is no such tenant, service or key
│   ├── AlreadyThere         there is one already
│   └── StillInUse           others belong to it
└── AuditUnavailable       the store does not take or give audit records
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


class DisabledKey(InvalidKey):
    pass


class ExpiredKey(InvalidKey):
    pass


class LimitsUnavailable(AuthError):
    pass


class KeysUnavailable(AuthError):
    pass


class UnreadableRecord(KeysUnavailable):
    pass


class DirectoryError(AuthError):
    """Nothing was changed."""


class NoSuchRecord(DirectoryError):
    pass


class AlreadyThere(DirectoryError):
    pass


class StillInUse(DirectoryError):
    pass


class AuditUnavailable(AuthError):
    pass
