"""Is the cache right? Audits, what is learned from them, and whether the budget holds."""

from .audits import Audits, Counts, Evidence, Sampling, Unaudited, nearest
from .books import Books
from .judges import AgreementJudge
from .ledger import Share, Standing
from .ruling import WITHHELD, Ruling, row_in
from .standing import Rules

__all__ = [
    "WITHHELD",
    "AgreementJudge",
    "Audits",
    "Books",
    "Counts",
    "Evidence",
    "Rules",
    "Ruling",
    "Sampling",
    "Share",
    "Standing",
    "Unaudited",
    "nearest",
    "row_in",
]
