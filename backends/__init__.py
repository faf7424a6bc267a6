"""Pools of model servers: the least loaded member that serves a version of a model, and its answer.

Knows nothing of caches, tenants or keys. `testing` has a backend for tests without a network.
"""

from __future__ import annotations

from .errors import BackendError, NoBackend, UnknownModel, UpstreamBroken, UpstreamFailed, UpstreamTimeout
from .exchange import Exchange
from .interfaces import Backend, Reply
from .model import Attempt, Candidate, Member, Outgoing, Timeouts, UpstreamRequest, Version
from .pool import Pools
from .sse import DONE, Event, Parser, encode
from .vllm import VllmBackend

__all__ = [
    "DONE",
    "Attempt",
    "Backend",
    "BackendError",
    "Candidate",
    "Event",
    "Exchange",
    "Member",
    "NoBackend",
    "Outgoing",
    "Parser",
    "Pools",
    "Reply",
    "Timeouts",
    "UnknownModel",
    "UpstreamBroken",
    "UpstreamFailed",
    "UpstreamRequest",
    "UpstreamTimeout",
    "Version",
    "VllmBackend",
    "encode",
]
