"""Why a model server gave no answer.

BackendError
├── UnknownModel       no pool serves this public model name
├── NoBackend          the pool has no member that may be tried now
├── UpstreamFailed     every attempt failed before its first byte, or a stream broke after it
│   ├── UpstreamTimeout   connect, first-byte, idle or whole-request deadline passed
│   └── UpstreamBroken    refused, reset, cut short, not HTTP, or an answer too large
└── StateError         what admins changed of the pools
    ├── StateUnavailable  the store refused or did not answer in time; a change may have been made
    ├── StateConflict     others kept changing the same pool
    └── UnreadableState   written by another release, or damaged
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .model import Attempt


class BackendError(Exception):
    """Base of all errors of this package. Messages name members, never their addresses or credentials."""


class UnknownModel(BackendError):
    pass


class NoBackend(BackendError):
    pass


class UpstreamFailed(BackendError):
    """`reason` is a short machine word: "connect", "timeout", "busy", "denied", "reset", "cut", "not-http", …"""

    def __init__(self, message: str, *, reason: str, attempts: tuple[Attempt, ...] = ()) -> None:
        super().__init__(message)
        self.reason = reason
        self.attempts = attempts


class UpstreamTimeout(UpstreamFailed):
    pass


class UpstreamBroken(UpstreamFailed):
    pass


class StateError(BackendError):
    pass


class StateUnavailable(StateError):
    pass


class StateConflict(StateError):
    pass


class UnreadableState(StateError):
    pass
