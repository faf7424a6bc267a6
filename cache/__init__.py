"""The semantic cache: answers by question, exact or similar, inside partitions that never meet."""

from .acceptance import Policy, first_veto, is_same, read
from .embed import EmbedQueue, NoEmbedder, OnnxEmbedder, Prepared, open_embedder, prepare
from .entries.accounts import Account, Accounts
from .entries.claims import Claims
from .entries.inventory import Inventory, Progress
from .entries.next_vectors import NextVectors
from .entries.record import Header, Record
from .entries.sealing import AesGcmSeal, Seal, Unsealed
from .entries.selection import Selector
from .entries.store import RedisEntries
from .entries.transfer import NotAnEntry, Transfer
from .errors import CacheError, EmbedderBusy, ModelError, StoreUnavailable, UnfitText
from .evidence import AgreementJudge, Audits, Books, Rules, Sampling, Share, Standing, Unaudited
from .evidence.correction import JudgeRates, correction_of
from .evidence.hindsight import Hindsight, WouldBe, look_back
from .evidence.ledger import wilson
from .evidence.replay import Course, Outcome, Stream, replay
from .explain import Explanation, Neighbour
from .identity import is_same_in_form
from .index import Cluster, FaissIndex, FrozenSpace, IndexState, Neighbours, Plan, Space, Spaces
from .interfaces import Embedder, EntryStore, Exchange, Judge, Store, VectorIndex
from .lookup import Lookup
from .model import (
    LITERAL,
    Answer,
    Entry,
    Hit,
    Miss,
    Near,
    Partition,
    Question,
    Quota,
    Served,
    Step,
    Stored,
    Ticket,
    Tier,
    Verdict,
)
from .replica import (
    Follower,
    Reembedded,
    Reembedding,
    Snapshot,
    SnapshotOwner,
    SnapshotRefused,
    Snapshots,
)
from .semantic import SemanticCache

__all__ = [
    "LITERAL",
    "Account",
    "Accounts",
    "AesGcmSeal",
    "AgreementJudge",
    "Answer",
    "Audits",
    "Books",
    "CacheError",
    "Claims",
    "Cluster",
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
    "Header",
    "Hindsight",
    "Hit",
    "IndexState",
    "Inventory",
    "Judge",
    "JudgeRates",
    "Lookup",
    "Miss",
    "ModelError",
    "Near",
    "Neighbour",
    "Neighbours",
    "NextVectors",
    "NoEmbedder",
    "NotAnEntry",
    "OnnxEmbedder",
    "Outcome",
    "Partition",
    "Plan",
    "Policy",
    "Prepared",
    "Progress",
    "Question",
    "Quota",
    "Record",
    "RedisEntries",
    "Reembedded",
    "Reembedding",
    "Rules",
    "Sampling",
    "Seal",
    "Selector",
    "SemanticCache",
    "Served",
    "Share",
    "Snapshot",
    "SnapshotOwner",
    "SnapshotRefused",
    "Snapshots",
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
    "Transfer",
    "Unaudited",
    "UnfitText",
    "Unsealed",
    "VectorIndex",
    "Verdict",
    "WouldBe",
    "correction_of",
    "first_veto",
    "is_same",
    "is_same_in_form",
    "look_back",
    "open_embedder",
    "prepare",
    "read",
    "replay",
    "wilson",
]
