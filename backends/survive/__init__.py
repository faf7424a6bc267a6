"""When a member fails or leaves: what is a failure, who is left out, who may try again, how long to wait."""

from .breaker import Breaker, BreakerState
from .budget import RetryBudget
from .ejection import Standing, usable
from .notices import Notice, read_notice
from .patience import Patience
from .retry import failure_in_events, failure_in_status, may_retry, rest_asked
from .verdict import Verdict, verdict
from .vitals import Vitals, health_factor
from .warmup import Warmup

__all__ = [
    "Breaker",
    "BreakerState",
    "Notice",
    "Patience",
    "RetryBudget",
    "Standing",
    "Verdict",
    "Vitals",
    "Warmup",
    "failure_in_events",
    "failure_in_status",
    "health_factor",
    "may_retry",
    "read_notice",
    "rest_asked",
    "usable",
    "verdict",
]
