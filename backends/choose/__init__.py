"""Which member answers: versions of a model, what the servers tell of themselves, load, and the choice."""

from .load import InFlight, Lease
from .policies import two_choices
from .revisions import Revision, Revisions
from .versions import Versions

__all__ = ["InFlight", "Lease", "Revision", "Revisions", "Versions", "two_choices"]
