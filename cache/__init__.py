"""The semantic cache: answers by question, exact or similar, inside partitions that never meet."""

from .acceptance import Policy
from .embed import EmbedQueue, NoEmbedder, OnnxEmbedder, Prepared, open_embedder, prepare
from .entry_store import RedisEntries
from .errors import CacheError, EmbedderBusy, ModelError, StoreUnavailable, UnfitText
from .index import FaissIndex, Spaces
from .interfaces import Embedder, EntryStore, Store, VectorIndex
from .lookup import Lookup
from .model import Answer, Entry, Hit, Miss, Partition, Question, Step, Stored, Ticket, Verdict
from .replica import Follower
from .semantic import SemanticCache

__all__ = [
    "Answer",
    "CacheError",
    "EmbedQueue",
    "Embedder",
    "EmbedderBusy",
    "Entry",
    "EntryStore",
    "FaissIndex",
    "Follower",
    "Hit",
    "Lookup",
    "Miss",
    "ModelError",
    "NoEmbedder",
    "OnnxEmbedder",
    "Partition",
    "Policy",
    "Prepared",
    "Question",
    "RedisEntries",
    "SemanticCache",
    "Spaces",
    "Step",
    "Store",
    "StoreUnavailable",
    "Stored",
    "Ticket",
    "UnfitText",
    "VectorIndex",
    "Verdict",
    "open_embedder",
    "prepare",
]
