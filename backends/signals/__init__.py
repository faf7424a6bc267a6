"""What model servers tell of themselves: how it is asked for, read, and understood."""

from .diagnose import Finding, diagnose
from .dialects import DIALECTS, Dialect, Reading, read_metrics
from .poller import Poller
from .probe import Probe

__all__ = ["DIALECTS", "Dialect", "Finding", "Poller", "Probe", "Reading", "diagnose", "read_metrics"]
