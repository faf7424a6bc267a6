"""Which member answers: what it can do, how loaded and how quick it is, versions of a model, and the choice."""

from .affinity import ranked
from .eligible import meets
from .load import InFlight, expected_load, with_kv_pressure
from .pace import RECOMPUTE_S, finished_window, qps_ratios
from .policies import POLICIES, Field, Pick, Policy
from .revisions import Revision, Revisions
from .versions import Versions

__all__ = [
    "POLICIES",
    "RECOMPUTE_S",
    "Field",
    "InFlight",
    "Pick",
    "Policy",
    "Revision",
    "Revisions",
    "Versions",
    "expected_load",
    "finished_window",
    "meets",
    "qps_ratios",
    "ranked",
    "with_kv_pressure",
]
