"""What happens when a member fails: how long to wait, what is a failure, may another try, whom to avoid."""

from .cooldown import Cooldown
from .patience import Patience
from .retry import failure_in_events, failure_in_status, may_retry

__all__ = ["Cooldown", "Patience", "failure_in_events", "failure_in_status", "may_retry"]
