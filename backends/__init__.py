"""Pools of model servers: the least loaded member that serves a version of a model, and its answer.

Knows nothing of caches, tenants or keys. `testing` has a backend for tests without a network.
"""

from __future__ import annotations

from .addresses import AddressRule
from .errors import (
    BackendError,
    NoBackend,
    StateConflict,
    StateError,
    StateUnavailable,
    UnknownModel,
    UnreadableState,
    UpstreamBroken,
    UpstreamFailed,
    UpstreamTimeout,
)
from .exchange import Exchange
from .facts import Explanation, MemberView, Recovery, VersionCounts
from .interfaces import Backend, PoolState, Reply
from .model import (
    Affinity,
    Attempt,
    Candidate,
    Capabilities,
    Member,
    Needs,
    Outgoing,
    Pool,
    Signals,
    Timeouts,
    UpstreamRequest,
    Version,
)
from .overlay import Overlay, differences, laid_over
from .pool import Pools
from .signals import Finding, Poller, diagnose
from .sse import DONE, Event, Parser, encode
from .state import MemoryPoolState, StorePoolState
from .survive import Notice, read_notice
from .vllm import VllmBackend

__all__ = [
    "DONE",
    "AddressRule",
    "Affinity",
    "Attempt",
    "Backend",
    "BackendError",
    "Candidate",
    "Capabilities",
    "Event",
    "Exchange",
    "Explanation",
    "Finding",
    "Member",
    "MemberView",
    "MemoryPoolState",
    "Needs",
    "NoBackend",
    "Notice",
    "Outgoing",
    "Overlay",
    "Parser",
    "Poller",
    "Pool",
    "PoolState",
    "Pools",
    "Recovery",
    "Reply",
    "Signals",
    "StateConflict",
    "StateError",
    "StateUnavailable",
    "StorePoolState",
    "Timeouts",
    "UnknownModel",
    "UnreadableState",
    "UpstreamBroken",
    "UpstreamFailed",
    "UpstreamRequest",
    "UpstreamTimeout",
    "Version",
    "VersionCounts",
    "VllmBackend",
    "diagnose",
    "differences",
    "encode",
    "laid_over",
    "read_notice",
]
