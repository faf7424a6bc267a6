"""What can go wrong in the cache. None of these reaches a caller of the gateway: the cache misses instead.

CacheError
├── StoreUnavailable    the entry store is down, late or refuses
├── EmbedderBusy        the embed queue would not get to this text in time
├── EmbedderFailed      the embedder is another server, and it is down, late or confused
├── UnfitText           the embedder cannot read this text faithfully (`.reason`)
└── ModelError          a model file is missing, tampered with, or of another kind
"""

from __future__ import annotations


class CacheError(Exception):
    """Base of all errors of this package."""


class StoreUnavailable(CacheError):
    pass


class EmbedderBusy(CacheError):
    pass


class EmbedderFailed(CacheError):
    pass


class UnfitText(CacheError):
    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ModelError(CacheError):
    pass
