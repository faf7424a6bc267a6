"""The semantic cache: answers by question, exact or similar, inside partitions that never meet."""

from .acceptance import Policy, first_veto, read
from .embed import EmbedQueue, NoEmbedder, OnnxEmbedder, Prepared, open_embedder, prepare
from .entry_store import RedisEntries
from .errors import CacheError, EmbedderBusy, ModelError, StoreUnavailable, UnfitText
from .evidence import AgreementJudge, Audits, Books, Rules, Sampling, Share, Standing, Unaudited
from .evidence.ledger import wilson
from .evidence.replay import Course, Outcome, Stream, replay
from .explain import Explanation, Neighbour
from .index import FaissIndex, FrozenSpace, IndexState, Neighbours, Plan, Space, Spaces
from .interfaces import Embedder, EntryStore, Exchange, Judge, Store, VectorIndex
from .lookup import Lookup
from .model import (
    Answer,
    Entry,
    Hit,
    Miss,
    Near,
    Partition,
    Question,
    Served,
    Step,
    Stored,
    Ticket,
    Tier,
    Verdict,
)
from .replica import Follower
from .semantic import SemanticCache

__all__ = [
    "AgreementJudge",
    "Answer",
    "Audits",
    "Books",
    "CacheError",
    "Course",
    "EmbedQueue",
    "Embedder",
    "EmbedderBusy",
    "Entry",
    "EntryStore",
    "Exchange",
    "Explanation",
    "FaissIndex",
    "Follower",
    "FrozenSpace",
    "Hit",
    "IndexState",
    "Judge",
    "Lookup",
    "Miss",
    "ModelError",
    "Near",
    "Neighbour",
    "Neighbours",
    "NoEmbedder",
    "OnnxEmbedder",
    "Outcome",
    "Partition",
    "Plan",
    "Policy",
    "Prepared",
    "Question",
    "RedisEntries",
    "Rules",
    "Sampling",
    "SemanticCache",
    "Served",
    "Share",
    "Space",
    "Spaces",
    "Standing",
    "Step",
    "Store",
    "StoreUnavailable",
    "Stored",
    "Stream",
    "Ticket",
    "Tier",
    "Unaudited",
    "UnfitText",
    "VectorIndex",
    "Verdict",
    "first_veto",
    "open_embedder",
    "prepare",
    "read",
    "replay",
    "wilson",
]
